package server

// PID is the PID of the postmaster, for tests that signal it.
func (p *Process) PID() int { return p.pid }

// SetBinDirs replaces binDirs, and returns a function that restores it.
func SetBinDirs(patterns ...string) (undo func()) {
	former := binDirs
	binDirs = patterns
	return func() { binDirs = former }
}
