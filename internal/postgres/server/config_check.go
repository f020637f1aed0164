package server

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// InvalidConfigError is what PostgreSQL says of a configuration that it would not start with.
type InvalidConfigError struct {
	// Parameters are the names that it does not like, as it spells them; it may have named none.
	Parameters []string
	Cause      error
}

func (e *InvalidConfigError) Error() string { return e.Cause.Error() }

// checkDir is the folder, in that of the configuration, where one is put to be checked.
const checkDir = "check"

var invalidParameter = regexp.MustCompile(`(?m)^.*LOG: .*parameter "([^"]+)"`)

// CheckConfig asks the programs whether a server would start with the files, or take them over: they parse them as a
// server does. The error is a *InvalidConfigError if not. A server that runs is not touched.
func (s *Server) CheckConfig(ctx context.Context, files config.Files) error {
	dir := filepath.Join(s.ConfigDir(), checkDir)
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
	invalid := &InvalidConfigError{Cause: err}
	for _, match := range invalidParameter.FindAllStringSubmatch(err.Error(), -1) {
		if !slices.Contains(invalid.Parameters, match[1]) {
			invalid.Parameters = append(invalid.Parameters, match[1])
		}
	}
	return invalid
}
