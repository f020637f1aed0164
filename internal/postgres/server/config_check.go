package server

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// InvalidConfigError means that PostgreSQL would not start with a configuration.
type InvalidConfigError struct {
	// Parameters are the invalid parameters as PostgreSQL spells them. It may have named none.
	Parameters []string
	Cause      error
}

func (e *InvalidConfigError) Error() string { return e.Cause.Error() }

// checkDir is the subdirectory of the configuration directory where a candidate configuration is checked.
const checkDir = "check"

var invalidParameter = regexp.MustCompile(`(?m)^.*LOG: .*parameter "([^"]+)"`)

// CheckConfig runs `postgres -C` to check whether a server would start with the files, or load them. The error is an
// *InvalidConfigError if it would not. A running server is not affected.
func (s *Server) CheckConfig(ctx context.Context, files config.Files) error {
	dir := filepath.Join(s.ConfigDir(), checkDir)
	if err := s.makeDir(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, config.ConfFile)
	if err := s.write(path, []byte(files[config.ConfFile])); err != nil {
		return err
	}
	defer os.Remove(path) //nolint:errcheck // the next check overwrites it
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
