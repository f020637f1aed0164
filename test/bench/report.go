package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// row is the result of one contender after all rounds: medians, and spreads that show their reliability.
type row struct {
	Contender string  `json:"contender"`
	About     string  `json:"about"`
	Seconds   float64 `json:"seconds"`
	Spread    float64 `json:"secondsCV"`
	Drain     float64 `json:"drainSeconds"`
	Writes    float64 `json:"writesPerWebApp"`
	PerFloor  float64 `json:"writesPerNecessaryWrite"`
	LiveReads float64 `json:"liveReadsPerWebApp"`
	Events    float64 `json:"eventsPerWebApp"`
	CPU       float64 `json:"cpuSeconds"`
	ServerCPU float64 `json:"serverCPUSeconds"`
	MaxRSS    float64 `json:"maxRSSMiB"`
}

type results struct {
	Time     time.Time `json:"time"`
	Machine  machine   `json:"machine"`
	Load     string    `json:"load"`
	N        int       `json:"webApps"`
	Children int       `json:"children"`
	Rounds   int       `json:"rounds"`
	Seed     uint64    `json:"seed"`
	Rows     []row     `json:"contenders"`
	Ratios   []ratio   `json:"ratios"`
	Blocks   []block   `json:"blocks"`
}

func (b *bench) report(all []contender, blocks []block) error {
	r := results{
		Time: time.Now().UTC().Truncate(time.Second), Machine: b.machine, Load: b.options.load, N: b.options.n,
		Children: b.options.children, Rounds: b.options.rounds, Seed: b.options.seed, Blocks: blocks,
	}
	for _, c := range all {
		if of(blocks, c.name, func(block) float64 { return 0 }) != nil {
			r.Rows = append(r.Rows, b.row(c, blocks))
		}
	}
	r.Ratios = ratios(blocks)
	path := filepath.Join(b.options.out, fmt.Sprintf("compare-%s-%d-%d.json", r.Load, r.N, r.Children))
	if err := writeJSON(path, r); err != nil {
		return err
	}
	fmt.Print(r.String())
	fmt.Println("\nAll figures:", path)
	return nil
}

func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

func (b *bench) row(c contender, blocks []block) row {
	n := float64(b.options.n)
	values := func(get func(block) float64) float64 { return median(of(blocks, c.name, get)) }
	writes := values(func(k block) float64 { return float64(k.Writes) }) / n
	return row{
		Contender: c.name, About: c.about,
		Seconds:   values(func(k block) float64 { return k.Seconds }),
		Spread:    spread(of(blocks, c.name, func(k block) float64 { return k.Seconds })),
		Drain:     values(func(k block) float64 { return k.Drain }),
		Writes:    writes,
		PerFloor:  writes / float64(b.options.children+1),
		LiveReads: values(func(k block) float64 { return float64(k.LiveReads) }) / n,
		Events:    values(func(k block) float64 { return float64(k.Events) }) / n,
		CPU:       values(func(k block) float64 { return k.CPUAfter }),
		ServerCPU: values(func(k block) float64 { return k.ServerCPU }),
		MaxRSS:    values(func(k block) float64 { return k.MaxRSS }),
	}
}

// of returns a figure of each of the contender's blocks, in the order of the rounds.
func of(blocks []block, name string, get func(block) float64) []float64 {
	var values []float64
	for _, k := range blocks {
		if k.Contender == name {
			values = append(values, get(k))
		}
	}
	return values
}

// ratios are Fettle's speed divided by that of each other contender in the same round, and its CPU time divided by theirs.
func ratios(blocks []block) []ratio {
	seconds, cpu := func(k block) float64 { return k.Seconds }, func(k block) float64 { return k.CPUAfter }
	var all []ratio
	for _, other := range names() {
		ours, theirs := of(blocks, fettleName, seconds), of(blocks, other, seconds)
		if other == fettleName || len(ours) == 0 || len(theirs) == 0 {
			continue
		}
		all = append(all,
			newRatio("speed of "+fettleName+" / "+other, divide(theirs, ours)),
			newRatio("CPU time of "+fettleName+" / "+other, divide(of(blocks, fettleName, cpu), of(blocks, other, cpu))))
	}
	return all
}

func divide(a, b []float64) []float64 {
	quotients := make([]float64, len(a))
	for i := range a {
		quotients[i] = a[i] / b[i]
	}
	return quotients
}

func (r results) String() string {
	var text strings.Builder
	m := r.Machine
	fmt.Fprintf(&text, "%d WebApps (replicas 0, %d children each), load %s, %d rounds in random order (seed %d)\n", r.N, r.Children, r.Load, r.Rounds, r.Seed)
	fmt.Fprintf(&text, "%s, %d cores, fdatasync p50 %.2f ms, load average %s before and %s after\n", m.CPU, m.Cores, m.Fdatasync, m.LoadBefore, m.LoadAfter)
	fmt.Fprintf(&text, "fettle %s, kube-apiserver %s, etcd %s, controller-runtime %s, %s\n\n", m.Versions["commit"], m.Versions["kube-apiserver"],
		m.Versions["etcd"], m.Versions["sigs.k8s.io/controller-runtime"], m.Versions["go"])
	var table strings.Builder
	fmt.Fprintln(&table, "contender\tto Ready s\tCV\tdrain s\twrites/app\t/necessary\tlive reads/app\tevents/app\tCPU s\tserver CPU s\tmax RSS MiB\t")
	for _, w := range r.Rows {
		fmt.Fprintf(&table, "%s\t%.2f\t%.0f %%\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t\n", w.Contender, w.Seconds, 100*w.Spread, w.Drain,
			w.Writes, w.PerFloor, w.LiveReads, w.Events, w.CPU, w.ServerCPU, w.MaxRSS)
	}
	text.WriteString(align(table.String(), tabwriter.AlignRight))
	fmt.Fprintln(&text, "\nMedians of the rounds' ratios, with bootstrapped 95 % intervals:")
	table.Reset()
	for _, q := range r.Ratios {
		fmt.Fprintf(&table, "  %s\t%.2f\t[%.2f, %.2f]\n", q.Of, q.Median, q.Low, q.High)
	}
	text.WriteString(align(table.String(), 0))
	fmt.Fprintln(&text)
	for _, w := range r.Rows {
		fmt.Fprintf(&text, "%s: %s\n", w.Contender, w.About)
		if w.Contender == rawName && w.Spread > 0.05 {
			fmt.Fprintf(&text, "  its times vary by %.0f %%: the machine was busy, so only trust the intervals\n", 100*w.Spread)
		}
	}
	return text.String()
}

// align aligns the cells of a table, which are separated by tabs.
func align(table string, flags uint) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', flags)
	_, _ = w.Write([]byte(table)) // a strings.Builder returns no errors
	_ = w.Flush()
	return text.String()
}
