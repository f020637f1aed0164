package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/fettle-dev/fettle/api"
	"github.com/fettle-dev/fettle/internal/cmd"
	"github.com/fettle-dev/fettle/test/bench/naive"
	"github.com/fettle-dev/fettle/test/bench/raw"
)

// contendCommand is the sub-command that runs a contender in its own process.
const contendCommand = "contend"

// contender is one of the compared programs.
type contender struct {
	name, about string
	user        string
	arguments   []string // of contendCommand
}

const (
	fettleName = "fettle"
	rawName    = "raw"
)

// contenders returns all contenders; calibrate determines the raw client's concurrency.
func contenders(concurrency int) []contender {
	naiveContender := func(name, about string, arguments ...string) contender {
		return contender{name: name, about: about, user: naiveUser, arguments: append([]string{"naive"}, arguments...)}
	}
	return []contender{
		{name: fettleName, about: "Fettle, 5 workers", user: fettleUser, arguments: []string{"ours"}},
		{
			name: rawName, about: fmt.Sprintf("raw client, %d requests at once, the fastest of %s", concurrency, strings.Trim(fmt.Sprint(concurrencies), "[]")),
			user: rawUser, arguments: []string{"raw", "-workers", strconv.Itoa(concurrency)},
		},
		naiveContender("naive", "naive controller, 1 worker", "-workers", "1"),
		naiveContender("naive-5", "naive controller, 5 workers", "-workers", "5"),
		naiveContender("careful-5", "naive controller that compares before it writes, 5 workers", "-workers", "5", "-careful"),
	}
}

// concurrencies from which the raw client uses the fastest.
var concurrencies = []int{1, 4, 8, 16, 32}

// contend runs a contender. It uses KUBECONFIG and exits on SIGTERM.
func contend(ctx context.Context, args []string) error {
	if args[0] == "ours" {
		fettle := cmd.New()
		fettle.SetArgs([]string{
			"manager", "--webhooks=false", "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		})
		return fettle.ExecuteContext(ctx)
	}
	if slices.Contains([]string{"backup", "recover", "archive"}, args[0]) {
		return pod(ctx, args[0], args[1:])
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	workers := flags.Int("workers", 1, "number of concurrently reconciled objects")
	careful := flags.Bool("careful", false, "write only differences")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	ctrl.SetLogger(zap.New())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, 0
	if args[0] == rawName {
		return raw.Run(ctx, config, scheme(), *workers)
	}
	return naive.Run(ctx, config, scheme(), naive.Options{Workers: *workers, Careful: *careful})
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, api.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // a type that is registered twice
		}
	}
	return s
}

// usage is the resource usage of a process so far.
type usage struct {
	cpu float64 // seconds, in user mode and in the kernel
	rss float64 // MiB, now
}

// clockTick is the unit of times in /proc, the same on every Linux that Go runs on.
const clockTick = 100

// usageOf reads /proc: getrusage of a forked child starts with the memory of its parent.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name before it may contain blanks
	fields := strings.Fields(after)
	var u usage
	for _, at := range []int{11, 12} { // utime and stime
		ticks, err := strconv.ParseFloat(fields[at], 64)
		if err != nil {
			return usage{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		u.cpu += ticks / clockTick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		if key != "VmRSS" {
			continue
		}
		kib, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		size, err := strconv.ParseFloat(kib, 64)
		if err != nil {
			return usage{}, fmt.Errorf("/proc/%d/status: %w", pid, err)
		}
		u.rss = size / 1024
	}
	return u, nil
}
