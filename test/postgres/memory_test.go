package postgres

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMemory measures what the agents have resident while rows are written. It runs when FETTLE_PG_MEMORY says for how
// long, such as 3m; FETTLE_PG_PROGRAM names the program to measure, since the test binary is larger than the shipped one.
func TestMemory(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("FETTLE_PG_MEMORY"))
	if err != nil || length <= 0 {
		t.Skip("nothing is measured: set FETTLE_PG_MEMORY to the time to write for")
	}
	c, l := newClusterWithWriter(t, synchronous)
	for end := time.Now().Add(length); ; {
		left := time.Until(end)
		time.Sleep(min(max(left, 0), 30*time.Second))
		t.Logf("MEMORY %5s left; the primary is %s; %s", max(left, 0).Round(time.Second), c.waitSettled().pod, c.memory())
		if left <= 0 {
			break
		}
	}
	c.check(l)
}

// memory is what the agents and the processes beside them have resident, in MiB: all of it, and what is their own alone (the rest are
// pages of the program's file).
func (c *cluster) memory() string {
	var out []string
	for _, i := range c.instances {
		agent, _ := i.pids()
		text := resident(agent)
		for _, pid := range i.watchdogs() {
			text += " + " + resident(pid)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ") + " MiB"
}

// resident is all that a process has, and in brackets what is its own alone, in MiB.
func resident(pid int) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "none"
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			values[fields[0]], _ = strconv.ParseFloat(fields[1], 64)
		}
	}
	return fmt.Sprintf("%.1f (%.1f)", values["VmRSS:"]/1024, values["RssAnon:"]/1024)
}
