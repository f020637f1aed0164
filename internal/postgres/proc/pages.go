package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// DropProgram has the kernel forget which pages of the program's file are mapped. Most of them were only needed by the
// start. What is needed again comes from the page cache.
func DropProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("find the pages of this program: %w", err)
	}
	for line := range strings.Lines(string(maps)) {
		begin, end, ok := readOnly(line, program)
		if !ok {
			continue
		}
		if _, _, failure := syscall.Syscall(syscall.SYS_MADVISE, begin, end-begin, unix.MADV_DONTNEED); failure != 0 {
			return fmt.Errorf("give back the pages of this program: %w", failure)
		}
	}
	return nil
}

// readOnly reads a line of /proc/self/maps. It is false for what is not of the file, or can be written to.
func readOnly(line, file string) (begin, end uintptr, ok bool) {
	const addresses, permissions, path = 0, 1, 5
	fields := strings.Fields(line)
	if len(fields) != path+1 || fields[path] != file || strings.Contains(fields[permissions], "w") {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(fields[addresses], "-")
	first, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return 0, 0, false
	}
	last, err := strconv.ParseUint(to, 16, 64)
	return uintptr(first), uintptr(last), err == nil && last > first
}
