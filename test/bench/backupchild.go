package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/runner"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// podMemory is the memory limit that the sub-command backup of Fettle sets.
const podMemory = 64 << 20

// unreported is for pods without an API server.
type unreported struct{}

func (unreported) Progress(context.Context, backupv1alpha1.Progress) error { return nil }
func (unreported) Result(context.Context, backupv1alpha1.RunResult) error  { return nil }

// podOptions are the flags of a child that does what a pod of Fettle does.
type podOptions struct {
	root, temp, volume, config, profile string
}

// pod runs what a pod of Fettle runs, outside of a cluster: with a store and folders of the benchmark.
func pod(ctx context.Context, what string, args []string) error {
	var o podOptions
	flags := flag.NewFlagSet(what, flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "", "folder before the folders of package job")
	flags.StringVar(&o.temp, "temp", "", "folder for files with passwords")
	flags.StringVar(&o.volume, "volume", "", "folder for the recovered data")
	flags.StringVar(&o.config, "config", "", "file with the config, beside the root")
	flags.StringVar(&o.profile, "profile", "", "file for a CPU profile")
	if err := flags.Parse(args); err != nil {
		return err
	}
	debug.SetMemoryLimit(podMemory)
	if o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	text := os.Getenv(job.EnvConfig)
	if o.config != "" {
		content, err := os.ReadFile(o.config)
		if err != nil {
			return err
		}
		text, o.root = string(content), filepath.Join(filepath.Dir(o.config), "root")
	}
	c, err := job.Decode(text)
	if err != nil {
		return err
	}
	switch what {
	case "recover":
		return o.recoverBase(ctx, c)
	case "archive":
		return o.archive(ctx, c, flags.Arg(0), flags.Arg(1))
	default:
		return runner.Run(ctx, c, runner.Options{
			Report: unreported{}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Temp: o.temp, Root: o.root, StoreOptions: []store.Option{store.PermitLoopback()},
		})
	}
}

func (o *podOptions) open(ctx context.Context, c *job.Config) (*store.Store, error) {
	keys, err := store.KeysFromDirs(filepath.Join(o.root, job.DirStore), filepath.Join(o.root, job.DirStoreCA, "ca.crt"))
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, c.Backup.Destination, keys, path.Join(c.Namespace, c.Backup.Name), store.PermitLoopback())
}

// errRestored ends a recovery before WAL is replayed.
var errRestored = errors.New("restored")

// recoverBase restores a base backup as the agent does. It ends the process, so that what was restored stays.
func (o *podOptions) recoverBase(ctx context.Context, c *job.Config) error {
	s, err := o.open(ctx, c)
	if err != nil {
		return err
	}
	m, err := manifest.Read(ctx, s, c.Object)
	if err != nil {
		return err
	}
	binaries, err := server.BinariesIn(ctx, filepath.SplitList(os.Getenv("PATH"))[0])
	if err != nil {
		return err
	}
	instance, err := server.New(server.Options{Binaries: binaries, Volume: o.volume, RunDir: filepath.Join(o.volume, "run"), Output: os.Stderr})
	if err != nil {
		return err
	}
	return instance.Recover(ctx, server.Recovery{
		What: c.Object, Size: m.Parts[0].RawSize,
		Extract: func(ctx context.Context, write func(io.Reader) error) error {
			body, err := manifest.Open(ctx, s, m.Run, m.Parts[0])
			if err != nil {
				return err
			}
			content, err := archive.NewReader(body, m.Parts[0].Name, nil)
			if err == nil {
				err = write(content)
			}
			if err == nil {
				err = content.Verify(m.Parts[0].Size, m.Parts[0].SHA256)
			}
			return err
		},
		Configure: func(server.ControlData) (config.Files, error) {
			pprof.StopCPUProfile()
			os.Exit(0)
			return nil, errRestored
		},
	})
}

// archive stores WAL of the server. The system identifier is in its control file.
func (o *podOptions) archive(ctx context.Context, c *job.Config, file, name string) error {
	s, err := o.open(ctx, c)
	if err != nil {
		return err
	}
	content, err := os.ReadFile("global/pg_control") // PostgreSQL runs its commands in the data directory
	if err != nil {
		return err
	}
	return walarchive.New(s, fmt.Sprint(binary.NativeEndian.Uint64(content))).Put(ctx, name, file)
}
