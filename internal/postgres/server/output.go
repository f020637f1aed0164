package server

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxLine limits the buffer for a line without a line break.
const maxLine = 64 << 10

// outputPipe returns a pipe for the output of a program, which is copied to Options.Output in complete lines. It is a file
// instead of a pipe of package exec: with that one, Wait would block until all processes that inherited it exit.
func (s *Server) outputPipe() (*os.File, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create the log pipe: %w", err)
	}
	go func() {
		defer reader.Close() //nolint:errcheck // it was only read from
		copyLines(s.options.Output, reader)
	}()
	return writer, nil
}

// copyLines continues when a write fails: a program must never block on its log.
func copyLines(to io.Writer, from io.Reader) {
	buffer, filled := make([]byte, maxLine), 0
	for {
		n, err := from.Read(buffer[filled:])
		filled += n
		end := bytes.LastIndexByte(buffer[:filled], '\n') + 1
		if end == 0 && (filled == len(buffer) || err != nil) {
			end = filled
		}
		if end > 0 {
			_, _ = to.Write(buffer[:end])
			filled = copy(buffer, buffer[end:filled])
		}
		if err != nil {
			if filled > 0 {
				_, _ = to.Write(buffer[:filled])
			}
			return
		}
	}
}
