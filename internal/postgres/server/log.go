package server

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Log converts PostgreSQL's log lines to JSON. Use it as Options.Output.
type Log struct {
	token  string
	format *regexp.Regexp

	mu  sync.Mutex
	out io.Writer
}

// NewLog writes to out, with one call per line.
func NewLog(out io.Writer) *Log {
	token := rand.Text()
	return &Log{out: out, token: token, format: regexp.MustCompile(
		`^` + token + ` (\S+ \S+) UTC \[(\d+)\] (.*?) ([0-9A-Z]{5}) (?:(.*)@(.*) (\S+) )?([A-Z]+[0-9]?):  (.*)$`)}
}

// Token is the value for config.Settings.LogToken. A line without it does not come from PostgreSQL's logger.
func (l *Log) Token() string { return l.token }

// Record is a log line.
type Record struct {
	Level  string `json:"level"`
	TS     string `json:"ts"`
	Logger string `json:"logger"`
	Msg    string `json:"msg"`
	// The remaining fields are those of PostgreSQL's error reporting. See its manual.
	Severity  string `json:"severity,omitempty"`
	PID       string `json:"pid,omitempty"`
	Backend   string `json:"backend,omitempty"`
	SQLState  string `json:"sqlstate,omitempty"`
	User      string `json:"user,omitempty"`
	Database  string `json:"database,omitempty"`
	Client    string `json:"client,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Hint      string `json:"hint,omitempty"`
	Context   string `json:"context,omitempty"`
	Statement string `json:"statement,omitempty"`
	Query     string `json:"query,omitempty"`
	Location  string `json:"location,omitempty"`
	lastField *string
}

// Write takes complete lines.
func (l *Log) Write(lines []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var record *Record
	for line := range bytes.Lines(lines) {
		text := strings.ToValidUTF8(strings.TrimRight(string(line), "\r\n"), "�")
		if record.appendLine(text, l.format) {
			continue
		}
		if err := l.emit(record); err != nil {
			return 0, err
		}
		record = l.parse(text)
	}
	return len(lines), l.emit(record)
}

func (l *Log) emit(r *Record) error {
	if r == nil || r.Msg == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(line, '\n'))
	return err
}

// appendLine adds a line to the record: a continuation line, or a field such as DETAIL or HINT.
func (r *Record) appendLine(line string, format *regexp.Regexp) bool {
	if r == nil || r.lastField == nil {
		return false
	}
	if rest, more := strings.CutPrefix(line, "\t"); more {
		*r.lastField += "\n" + rest
		return true
	}
	f := format.FindStringSubmatch(line)
	if f == nil || f[2] != r.PID {
		return false
	}
	text := r.field(f[8])
	if text == nil {
		return false
	}
	*text, r.lastField = f[9], text
	return true
}

// field returns the field that follows a message, by its name.
func (r *Record) field(name string) *string {
	return map[string]*string{
		"DETAIL": &r.Detail, "HINT": &r.Hint, "CONTEXT": &r.Context, "STATEMENT": &r.Statement, "QUERY": &r.Query, "LOCATION": &r.Location,
	}[name]
}

func (l *Log) parse(line string) *Record {
	r := &Record{Level: "info", Logger: "postgres", TS: time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"), Msg: line}
	f := l.format.FindStringSubmatch(line)
	if f == nil {
		r.Msg = strings.ReplaceAll(line, l.token+" ", "")
		if strings.Contains(line, "FATAL:  ") || strings.Contains(line, "PANIC:  ") || strings.Contains(line, " error: ") {
			r.Level = "error" // from a server that has not loaded its configuration yet, or from a tool
		}
		return r
	}
	if at, err := time.Parse("2006-01-02 15:04:05.000", f[1]); err == nil {
		r.TS = at.Format("2006-01-02T15:04:05.000Z07:00")
	}
	r.PID, r.Backend, r.SQLState, r.User, r.Database, r.Client, r.Severity, r.Msg = f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9]
	r.Level, r.lastField = logLevel(r.Severity), &r.Msg
	if r.SQLState == "00000" {
		r.SQLState = ""
	}
	return r
}

func logLevel(severity string) string {
	switch severity {
	case "WARNING":
		return "warn"
	case "ERROR", "FATAL", "PANIC":
		return "error"
	case "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4", "DEBUG5":
		return "debug"
	}
	return "info"
}
