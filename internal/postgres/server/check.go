package server

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// RefusedError is what PostgreSQL says of a configuration that it would not start with.
type RefusedError struct {
	// Parameters are the names that it does not like, as it spells them; it may have named none.
	Parameters []string
	Words      error
}

func (e *RefusedError) Error() string { return e.Words.Error() }

// checkName is the folder, in that of the configuration, where one is put to be checked.
const checkName = "check"

var refusedParameter = regexp.MustCompile(`(?m)^.*LOG: .*parameter "([^"]+)"`)

// CheckConfig asks the programs whether a server would start with the files, or take them over: they parse them as a
// server does. The error is a *RefusedError if not. A server that runs is not touched.
func (s *Server) CheckConfig(ctx context.Context, files config.Files) error {
	dir := filepath.Join(s.ConfigDir(), checkName)
	if err := s.makeDir(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, config.ConfFile)
	if err := s.write(path, []byte(files[config.ConfFile])); err != nil {
		return err
	}
	defer os.Remove(path) //nolint:errcheck // it is written anew the next time
	_, err := s.tool(ctx, toolOptions{quiet: true}, "postgres", "-D", s.DataDir(), "-C", "port", "-c", "config_file="+path)
	if err == nil || ctx.Err() != nil {
		return err
	}
	refused := &RefusedError{Words: err}
	for _, match := range refusedParameter.FindAllStringSubmatch(err.Error(), -1) {
		if !slices.Contains(refused.Parameters, match[1]) {
			refused.Parameters = append(refused.Parameters, match[1])
		}
	}
	return refused
}
