package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
)

func TestFailure_messageIsSafe(t *testing.T) {
	r := &run{secrets: &redactor{}}
	r.secrets.add("", "hunter2")
	e := r.failure(errors.New("login hunter2 \x00\xff " + strings.Repeat("ü", 2000)))
	if characters := len([]rune(e.Message)); characters != maxMessage || strings.Contains(e.Message, "hunter2") || strings.Contains(e.Message, "\x00") || !utf8.ValidString(e.Message) {
		t.Errorf("message of %d characters: %.80s", characters, e.Message)
	}
	if e.Reason != backupv1alpha1.ReasonRunFailed || e.Permanent {
		t.Errorf("%+v: an unknown error may be temporary", e)
	}
}

// TestOutput_redactsAcrossWrites: a program may write a secret in pieces.
func TestOutput_redactsAcrossWrites(t *testing.T) {
	var log []string
	o := &output{log: func(line string) { log = append(log, line) }, secrets: &redactor{}}
	o.secrets.add("hunter2")
	for _, piece := range []string{"start\npass hun", "ter2 is wrong\n", "end"} {
		if _, err := io.WriteString(o, piece); err != nil {
			t.Fatal(err)
		}
	}
	o.flush()
	if got, want := o.text(), "start\npass *** is wrong\nend"; got != want || strings.Join(log, "\n") != want {
		t.Errorf("tail %q and log %q, want %q", got, log, want)
	}
}

func TestWithout_leavesOutWhatTheTargetHas(t *testing.T) {
	toc := `; Archive created at 2026-11-23
;     dbname: shop
6; 2615 2200 SCHEMA - public app
7; 2615 2201 SCHEMA - public2 app
2; 3079 16385 EXTENSION - hstore 
3; 3079 16386 EXTENSION - hstore2 
3400; 0 0 COMMENT - EXTENSION hstore 
3401; 0 0 COMMENT - SCHEMA public app
215; 1259 16390 TABLE public EXTENSION app
`
	got := without(toc, []string{"SCHEMA - public ", "EXTENSION - hstore ", "COMMENT - EXTENSION ", "COMMENT - SCHEMA public "})
	want := `; Archive created at 2026-11-23
;     dbname: shop
7; 2615 2201 SCHEMA - public2 app
3; 3079 16386 EXTENSION - hstore2 
215; 1259 16390 TABLE public EXTENSION app
`
	if got != want {
		t.Errorf("entries:\n%s\nwant:\n%s", got, want)
	}
}

func TestLocksOf(t *testing.T) {
	const toc = `; Archive created at 2026-11-23
;     dbname: shop
215; 1259 16390 TABLE public items app
3400; 0 16390 TABLE DATA public items app
3401; 0 0 SEQUENCE SET public items_id_seq app
3402; 2613 16400 BLOB - 16400 app
3403; 0 0 BLOBS - BLOBS 
216; 1259 16391 INDEX public items_name app
`
	if locks := locksOf(toc); locks != 4 {
		t.Errorf("%d locks, want 3 of the table and 1 of the index", locks)
	}
}

func TestAssign(t *testing.T) {
	backup := func(databases ...string) *manifest.Manifest {
		m := &manifest.Manifest{Method: "Logical", Type: "mysql", Run: "r"}
		for _, name := range databases {
			m.Parts = append(m.Parts, manifest.Part{Database: name})
		}
		return m
	}
	server := func(databases ...string) job.Server {
		s := job.Server{Type: backupv1alpha1.ServerMySQL}
		for _, name := range databases {
			s.Databases = append(s.Databases, job.Database{Name: name})
		}
		return s
	}
	for name, test := range map[string]struct {
		m    *manifest.Manifest
		to   job.Server
		want string
	}{
		"one into another name":          {backup("a"), server("z"), "a>z"},
		"several by name":                {backup("a", "b"), server("b", "a"), "a>a b>b"},
		"targets without a part remain":  {backup("a"), server("b", "a"), "a>a"},
		"a part without a target":        {backup("a", "b"), server("a"), ""},
		"one part, several other names":  {backup("a"), server("b", "c"), ""},
		"another type of server":         {backup("a"), job.Server{Type: backupv1alpha1.ServerMongoDB, Databases: server("a").Databases}, ""},
		"a base backup is not restored ": {&manifest.Manifest{Method: "Physical", Type: "mysql"}, server("a"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := assign(test.m, test.to)
			var pairs []string
			for _, a := range all {
				pairs = append(pairs, a.part.Database+">"+a.to.Name)
			}
			if got := strings.Join(pairs, " "); got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestTail(t *testing.T) {
	m := &mysqlServer{}
	for dump, want := range map[string]error{
		"-- MariaDB dump\n-- Dump completed on 2026-11-23\n":                             nil,
		strings.Repeat("INSERT;\n", 1000) + "-- Dump completed on 2026-11-23 12:00:00\n": nil,
		"INSERT INTO t VALUES ('\n-- Dump completed\n');\n":                              errNoTrailer,
		"": errNoTrailer,
	} {
		if err := m.complete(t.Context(), strings.NewReader(dump)); !errors.Is(err, want) {
			t.Errorf("%.40q: %v, want %v", dump, err, want)
		}
	}
}

// TestExecute_brokenInputEndsProgram: a program must not take the end of a broken input for the end of a dump.
func TestExecute_brokenInputEndsProgram(t *testing.T) {
	r := &run{Options: Options{Log: slog.New(slog.DiscardHandler), Temp: t.TempDir()}, secrets: &redactor{}}
	lost := errors.New("connection lost")
	in := io.MultiReader(strings.NewReader("half"), &failingReader{lost})
	var out bytes.Buffer
	if err := r.execute(t.Context(), program{name: "cat", in: in}, &out); !errors.Is(err, lost) {
		t.Errorf("%v, want %v", err, lost)
	}
}

// TestExecute_slowWriterGetsEverything: the store may need longer for the last bytes than the program for all.
func TestExecute_slowWriterGetsEverything(t *testing.T) {
	r := &run{Options: Options{Log: slog.New(slog.DiscardHandler), Temp: t.TempDir()}, secrets: &redactor{}}
	out := &slowWriter{}
	if err := r.execute(t.Context(), program{name: "head", args: []string{"-c", "200000", "/dev/zero"}}, out); err != nil || out.size != 200000 {
		t.Errorf("%d bytes, %v", out.size, err)
	}
}

func TestExecute_cancelKillsProgram(t *testing.T) {
	r := &run{Options: Options{Log: slog.New(slog.DiscardHandler), Temp: t.TempDir()}, secrets: &redactor{}}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := r.execute(ctx, program{name: "sleep", args: []string{"60"}}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

type failingReader struct{ err error }

func (f *failingReader) Read([]byte) (int, error) { return 0, f.err }

type slowWriter struct{ size int }

func (s *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(20 * time.Millisecond)
	s.size += len(p)
	return len(p), nil
}

// FuzzMongoArchive: no archive that was cut or changed passes, and none takes much memory.
func FuzzMongoArchive(f *testing.F) {
	f.Add([]byte("m\xe2\x99\x81\xff\xff\xff\xff"))
	f.Add([]byte("m\xe2\x99\x81\x05\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		if checkMongoArchive(bytes.NewReader(archive)) != nil {
			return
		}
		for cut := range archive {
			if cut > 0 && checkMongoArchive(bytes.NewReader(archive[:cut])) == nil {
				t.Errorf("the first %d of %d bytes pass", cut, len(archive))
			}
		}
	})
}
