package server

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxLine bounds what is kept of a line that does not end.
const maxLine = 64 << 10

// outputPipe makes a file for a program to write to. What it writes arrives at Output in whole lines, as many at once as were
// written at once. A file, and no pipe of package exec: that one would have Wait wait for all who inherit it.
func (s *Server) outputPipe() (*os.File, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the log: %w", err)
	}
	go func() {
		defer reader.Close() //nolint:errcheck // it was only read from
		copyLines(s.options.Output, reader)
	}()
	return writer, nil
}

// copyLines goes on when the destination does not take what it is given: a program must never block on its log.
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
