package server

// PID is that of the postmaster, for tests that signal it.
func (p *Process) PID() int { return p.pid }

// SetBinDirs changes where installations are looked for, and returns how to undo that.
func SetBinDirs(patterns ...string) (undo func()) {
	former := binDirs
	binDirs = patterns
	return func() { binDirs = former }
}
