package postgres

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// maxFailoverLog is how many lines at level info and above the three agents may log for one failover.
const maxFailoverLog = 40

// agentLines returns the lines of the agent itself at level info and above, without those of PostgreSQL.
func agentLines(log string) []string {
	var out []string
	for line := range strings.Lines(log) {
		var fields struct{ Logger, Level string }
		if json.Unmarshal([]byte(line), &fields) == nil && fields.Logger == "agent" && fields.Level != "debug" {
			out = append(out, line)
		}
	}
	return out
}

// logs are the lengths of the logs of all instances at one time.
type logs map[*instance]int

func (c *cluster) agentLogs() logs {
	out := logs{}
	for _, i := range c.instances {
		out[i] = len(i.log.text())
	}
	return out
}

// wantShort checks how much the agents have logged since then, for one failover. FETTLE_FAILOVER_LOG names a file for the log.
func (l logs) wantShort(t *testing.T) {
	t.Helper()
	var lines []string
	for i, from := range l {
		for _, line := range agentLines(i.logSince(from)) {
			lines = append(lines, strings.TrimSuffix(line, "}\n")+`,"pod":"`+i.pod+"\"}\n")
		}
	}
	slices.Sort(lines) // by their times
	text := strings.Join(lines, "")
	if file := os.Getenv("FETTLE_FAILOVER_LOG"); file != "" {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) > maxFailoverLog {
		t.Errorf("the agents logged %d lines for a failover, of which %d are allowed:\n%s", len(lines), maxFailoverLog, text)
	}
}
