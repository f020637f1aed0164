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

// External is a running server that is none of the cluster's, to copy from.
type External struct {
	config.External
	// Password is only in the environment of the programs that connect; "" for none.
	Password string
	// ApplicationName is shown by the source.
	ApplicationName string
}

// Address is how people write it.
func (e External) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// Identity is what a server tells of itself before it is copied.
type Identity struct {
	SystemID string
	// Major is 15 and Version 15.18, of that server.
	Major   int
	Version string
	// Checksums says that its pages have some.
	Checksums bool
}

const (
	// identifyTimeout bounds a few questions, preflightTimeout also a checkpoint of the source.
	identifyTimeout, preflightTimeout = 30 * time.Second, 15 * time.Minute
)

// Preflight says whether a server can be copied: that it lets the user in and replicate, is of the version of the binaries, has no
// tablespaces, and that its data have room on the volume. Nothing is copied. The error is an *SourceError where the server is to
// blame.
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

// checkVersion says that a server of another major version can't be copied.
func (i Identity) checkVersion(e External, major int) error {
	if i.Major == major {
		return nil
	}
	return &SourceError{Kind: Unsuitable, Message: fmt.Sprintf(
		"%s runs PostgreSQL %s, and a copy has to be of the same major version: make a PostgreSQL of version %d, or copy the data with pg_dump",
		e.Address(), i.Version, i.Major)}
}

// checkSize says that the data, of a size in bytes, do not fit.
func checkSize(e External, size int64, disk Disk) error {
	const gib = 1 << 30
	if size+copyReserve <= disk.Free {
		return nil
	}
	return &SourceError{Kind: TooLarge, Expensive: true, Message: fmt.Sprintf(
		"the data of %s take %d GiB, rounded up, and do not fit on the volume, which has %d GiB free: raise spec.storage",
		e.Address(), (size+gib-1)/gib, disk.Free/gib)}
}

// identify asks a server who it is, as one that replicates.
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

// parseIdentity reads the four answers, each in a line.
func parseIdentity(output string) (Identity, error) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	const answers = 4
	if len(lines) != answers {
		return Identity{}, fmt.Errorf("psql: %d lines where %d were asked for: %q", len(lines), answers, output)
	}
	number, err := strconv.Atoi(lines[1])
	if err != nil {
		return Identity{}, fmt.Errorf("psql: the version %q is no number: %w", lines[1], err)
	}
	id, _, _ := strings.Cut(lines[0], "|")
	version, _, _ := strings.Cut(lines[2], " ") // a distribution's own name for it follows
	return Identity{SystemID: id, Major: number / 10000, Version: version, Checksums: lines[3] == "on"}, nil
}

// Import copies a server that is none of the cluster's into the data directory, which must be Empty. It is whole or not there.
// It is that of a standby that follows nobody: the server that starts from it has to be promoted, to a timeline of its own.
// Nothing of what the source was told by its configuration stays.
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

// ignoredConfig is the content of the files in the data directory by which a server is configured that nobody runs like this one.
const ignoredConfig = "# Fettle does not use this file. Use the parameters of the PostgreSQL object.\n"

// removeSourceConfig takes away from the copy what was the source's own affair: how it was configured, which programs of Debian and pg_rewind
// would read, and whom it followed.
func (s *Server) removeSourceConfig(e External) error {
	dir := s.CloneDir()
	if tablespaces, err := os.ReadDir(filepath.Join(dir, "pg_tblspc")); err != nil || len(tablespaces) > 0 {
		return errors.Join(err, e.tablespaceError())
	}
	for _, name := range []string{config.ConfFile, config.HBAFile, config.IdentFile, autoConf} {
		if err := s.write(filepath.Join(dir, name), []byte(ignoredConfig)); err != nil {
			return err
		}
	}
	for _, name := range []string{recoverySignal, "recovery.conf", "promote"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return s.write(filepath.Join(dir, standbySignal), nil)
}
