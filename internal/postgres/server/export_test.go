package server

// PID is that of the postmaster, for tests that signal it.
func (p *Process) PID() int { return p.pid }

// SetFolders changes where installations are looked for, and returns how to undo that.
func SetFolders(patterns ...string) (undo func()) {
	former := folders
	folders = patterns
	return func() { folders = former }
}
