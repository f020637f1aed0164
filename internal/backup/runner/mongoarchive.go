package runner

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The format of mongodump --archive: a magic number; a prelude with a header and one document for each collection, and a terminator; then
// blocks. A block is a header with the name of a collection, documents, and a terminator. The last block of a collection has EOF and the
// CRC of all its documents.
const (
	mongoMagic      = 0x8199e26d
	mongoTerminator = 0xffffffff
	// maxMongoDocument is the limit of MongoDB, 16 MiB, with room for what servers add.
	maxMongoDocument = 48 << 20
	minMongoDocument = 5
)

var errMongoArchive = errors.New("not a complete archive of mongodump")

var mongoCRC = crc64.MakeTable(crc64.ECMA)

// mongoHeader is the header of a block.
type mongoHeader struct {
	Database   string `bson:"db"`
	Collection string `bson:"collection"`
	EOF        bool   `bson:"EOF"`
	CRC        int64  `bson:"CRC"`
}

// checkMongoArchive reads an archive to its end. Every collection must have its EOF and the right CRC.
func checkMongoArchive(r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	number, err := readLength(in)
	if err != nil || number != mongoMagic {
		return errors.Join(errMongoArchive, err)
	}
	documents, err := copyBlock(in, io.Discard)
	if err != nil {
		return fmt.Errorf("prelude: %w", err)
	}
	missing := documents - 1 // the first document is the header of the archive
	sums := map[string]hash.Hash64{}
	for {
		header, err := readMongoHeader(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := header.Database + "." + header.Collection
		if sums[name] == nil {
			sums[name] = crc64.New(mongoCRC)
		}
		if _, err := copyBlock(in, sums[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if header.EOF {
			if sum := int64(sums[name].Sum64()); sum != header.CRC {
				return fmt.Errorf("%s: %w: its checksum is %x instead of %x", name, errMongoArchive, sum, header.CRC)
			}
			delete(sums, name)
			missing--
		}
	}
	if missing != 0 || len(sums) > 0 {
		return fmt.Errorf("%w: %d collections have no end", errMongoArchive, max(missing, len(sums)))
	}
	return nil
}

// readMongoHeader returns io.EOF at the end of the archive.
func readMongoHeader(in *bufio.Reader) (header mongoHeader, err error) {
	if _, err := in.Peek(1); errors.Is(err, io.EOF) {
		return header, io.EOF
	}
	length, err := readLength(in)
	if err != nil {
		return header, err
	}
	if length < minMongoDocument || length > maxMongoDocument {
		return header, errMongoArchive
	}
	document := make([]byte, length)
	binary.LittleEndian.PutUint32(document, length)
	if _, err := io.ReadFull(in, document[4:]); err != nil {
		return header, truncated(err)
	}
	if err := bson.Unmarshal(document, &header); err != nil {
		return header, fmt.Errorf("%w: %w", errMongoArchive, err)
	}
	return header, nil
}

// copyBlock copies documents until a terminator, and returns their number.
func copyBlock(in io.Reader, to io.Writer) (documents int, err error) {
	for {
		length, err := readLength(in)
		if err != nil {
			return documents, err
		}
		if length == mongoTerminator {
			return documents, nil
		}
		if length < minMongoDocument || length > maxMongoDocument {
			return documents, errMongoArchive
		}
		if err := binary.Write(to, binary.LittleEndian, length); err != nil {
			return documents, err
		}
		if _, err := io.CopyN(to, in, int64(length)-4); err != nil {
			return documents, truncated(err)
		}
		documents++
	}
}

func readLength(in io.Reader) (uint32, error) {
	var raw [4]byte
	if _, err := io.ReadFull(in, raw[:]); err != nil {
		return 0, truncated(err)
	}
	return binary.LittleEndian.Uint32(raw[:]), nil
}

// truncated makes the end of the input an error: io.EOF would be taken for the end of an archive.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it is truncated", errMongoArchive)
	}
	return err
}
