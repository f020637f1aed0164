package postgres

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMemory measures the resident memory of the agents during writes. Set FETTLE_PG_MEMORY to the duration, such as 3m.
// Set FETTLE_PG_PROGRAM to the shipped program, because the test binary is larger.
func TestMemory(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("FETTLE_PG_MEMORY"))
	if err != nil || length <= 0 {
		t.Skip("set FETTLE_PG_MEMORY to the duration of the writes")
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

// memory is the resident memory of the agents and their watchdogs in MiB: total, and private memory in brackets. The rest
// are pages of the program file.
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

// resident is the resident memory of a process in MiB, with its private memory in brackets.
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
