package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// External is a running server outside of the cluster, to copy from.
type External struct {
	config.External
	// Password is passed only in the environment of the programs that connect. "" means none.
	Password string
	// ApplicationName is the application_name on the source.
	ApplicationName string
}

// Address is host:port.
func (e External) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// Identity identifies a server before it is copied.
type Identity struct {
	SystemID string
	// Major and Version are the version of the server, for example 15 and 15.18.
	Major   int
	Version string
	// Checksums is true if data checksums are enabled.
	Checksums bool
}

const (
	// identifyTimeout bounds a few queries. preflightTimeout also covers a checkpoint on the source.
	identifyTimeout, preflightTimeout = 30 * time.Second, 15 * time.Minute
)

// Preflight checks whether a server can be copied: the user can log in and replicate, the major version matches the
// binaries, there are no tablespaces, and the data fit on the volume. It copies nothing. The error is a *SourceError if the
// cause is on the server.
func (s *Server) Preflight(ctx context.Context, e External) (Identity, error) {
	identity, err := s.identify(ctx, e)
	if err != nil {
		return identity, err
	}
	if err := identity.checkVersion(e, s.options.Binaries.Major); err != nil {
		return identity, err
	}
	size, err := s.sourceSize(ctx, e)
	if err != nil {
		return identity, err
	}
	disk, err := s.Disk()
	if err != nil {
		return identity, err
	}
	return identity, checkSize(e, size, disk)
}

// checkVersion rejects a server of another major version.
func (i Identity) checkVersion(e External, major int) error {
	if i.Major == major {
		return nil
	}
	return &SourceError{Kind: Unsuitable, Message: fmt.Sprintf(
		"%s runs PostgreSQL %s, but pg_basebackup needs the same major version: set spec.version to %d, or copy the data with pg_dump",
		e.Address(), i.Version, i.Major)}
}

// checkSize rejects data that do not fit on the volume. size is in bytes.
func checkSize(e External, size int64, disk Disk) error {
	const gib = 1 << 30
	if size+copyReserve <= disk.Free {
		return nil
	}
	return &SourceError{Kind: TooLarge, Expensive: true, Message: fmt.Sprintf(
		"the data of %s need %d GiB (rounded up), but the volume has %d GiB free: increase spec.storage",
		e.Address(), (size+gib-1)/gib, disk.Free/gib)}
}

// identify queries version and system identifier over a replication connection.
func (s *Server) identify(ctx context.Context, e External) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	output, err := s.tool(ctx, toolOptions{quiet: true, password: e.Password}, "psql", "--no-psqlrc", "--no-password", "--no-align", "--tuples-only",
		"--set=ON_ERROR_STOP=1", "--dbname="+e.ConnInfo(e.ApplicationName, true),
		"--command=IDENTIFY_SYSTEM", "--command=SHOW server_version_num", "--command=SHOW server_version", "--command=SHOW data_checksums")
	if err != nil {
		return Identity{}, e.classify(err)
	}
	return parseIdentity(output)
}

// parseIdentity reads the four results, one per line.
func parseIdentity(output string) (Identity, error) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	const answers = 4
	if len(lines) != answers {
		return Identity{}, fmt.Errorf("psql: got %d lines, want %d: %q", len(lines), answers, output)
	}
	number, err := strconv.Atoi(lines[1])
	if err != nil {
		return Identity{}, fmt.Errorf("psql: invalid server_version_num %q: %w", lines[1], err)
	}
	id, _, _ := strings.Cut(lines[0], "|")
	version, _, _ := strings.Cut(lines[2], " ") // a distribution's own name for it follows
	return Identity{SystemID: id, Major: number / 10000, Version: version, Checksums: lines[3] == "on"}, nil
}

// Import copies an external server into the data directory, which must be Empty. The data directory is either complete or
// absent. It is marked as a standby without upstream: the server must be promoted, which starts a new timeline. The
// configuration of the source is not kept.
func (s *Server) Import(ctx context.Context, e External) error {
	return s.createDataDir(ctx, "copy "+e.Address(), func() error {
		if _, err := s.tool(ctx, toolOptions{holdLock: true, password: e.Password}, "pg_basebackup",
			"--pgdata="+s.CloneDir(), "--format=plain", "--wal-method=stream", "--checkpoint=fast", "--no-password",
			"--dbname="+e.ConnInfo(e.ApplicationName, false)); err != nil {
			return e.classify(err)
		}
		return s.removeSourceConfig(e)
	})
}

// ignoredConfig replaces the configuration files in the data directory, which are not used.
const ignoredConfig = "# Fettle does not use this file. Use the parameters of the PostgreSQL object.\n"

// removeSourceConfig removes the source's own configuration from the copy. Debian's programs and pg_rewind would read it.
func (s *Server) removeSourceConfig(e External) error {
	dir := s.CloneDir()
	if tablespaces, err := os.ReadDir(filepath.Join(dir, "pg_tblspc")); err != nil || len(tablespaces) > 0 {
		return errors.Join(err, e.tablespaceError())
	}
	if err := s.ignoreConfig(dir); err != nil {
		return err
	}
	for _, name := range []string{recoverySignal, recoveryConf, promoteFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return s.write(filepath.Join(dir, standbySignal), nil)
}

// ignoreConfig writes the files of a configuration that is not used.
func (s *Server) ignoreConfig(dir string) error {
	for _, name := range []string{config.ConfFile, config.HBAFile, config.IdentFile, autoConf} {
		if err := s.write(filepath.Join(dir, name), []byte(ignoredConfig)); err != nil {
			return err
		}
	}
	return nil
}
