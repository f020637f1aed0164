package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const optionsFile = "options.json"

// poll is what people vote on.
type poll struct {
	Title        string   `json:"title"`
	ResultsTitle string   `json:"resultsTitle"`
	Options      []option `json:"options"`
	// MaxVotesPerUser is 0 for one vote that may be changed.
	MaxVotesPerUser int `json:"maxVotesPerUser"`
}

type option struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	// Color is "#RRGGBB", or empty.
	Color string `json:"color"`
}

// load reads the poll from environment variables ("NAME=value") and from options.json in folder, which may be missing. It is read for each
// request, because the kubelet refreshes a mounted file.
func load(environ []string, folder string) (poll, error) {
	text, err := os.ReadFile(filepath.Join(folder, optionsFile)) // of a ConfigMap: 1 MiB at most
	if errors.Is(err, fs.ErrNotExist) {
		return merge(environ, poll{})
	}
	if err != nil {
		return poll{}, fmt.Errorf("read the options: %w", err)
	}
	var mounted poll
	if err := json.Unmarshal(text, &mounted); err != nil {
		return poll{}, fmt.Errorf("%s in %s: %w", optionsFile, folder, err)
	}
	return merge(environ, mounted)
}

// merge combines the environment and options.json. The environment takes precedence, as in the stock application; the file fills the gaps.
func merge(environ []string, mounted poll) (poll, error) {
	env := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	p := poll{Title: env["TITLE"], ResultsTitle: env["RESULTS_TITLE"], MaxVotesPerUser: mounted.MaxVotesPerUser}
	if limit := env["MAX_VOTES_PER_USER"]; limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 {
			return poll{}, fmt.Errorf("MAX_VOTES_PER_USER is %q: it must be a whole number, 1 or more", limit)
		}
		p.MaxVotesPerUser = n
	}
	p.Options = options(env, mounted.Options)
	p.Title = first(p.Title, mounted.Title, strings.Join(labels(p.Options), " vs "))
	p.ResultsTitle = first(p.ResultsTitle, mounted.ResultsTitle, "Results")
	return p, nil
}

// options returns the options of OPTION_A to OPTION_Z, else the mounted ones, else the stock application's.
func options(env map[string]string, mounted []option) []option {
	var all []option
	for letter := 'a'; letter <= 'z'; letter++ {
		label, ok := env["OPTION_"+strings.ToUpper(string(letter))]
		if !ok || label == "" {
			continue
		}
		all = append(all, option{ID: string(letter), Label: label, Color: colorOf(mounted, string(letter))})
	}
	switch {
	case len(all) > 0:
		return all
	case len(mounted) > 0:
		return mounted
	default:
		return []option{{ID: "a", Label: "Cats"}, {ID: "b", Label: "Dogs"}}
	}
}

func colorOf(mounted []option, id string) string {
	if i := slices.IndexFunc(mounted, func(o option) bool { return o.ID == id }); i >= 0 {
		return mounted[i].Color
	}
	return ""
}

func labels(all []option) []string {
	out := make([]string, len(all))
	for i, o := range all {
		out[i] = o.Label
	}
	return out
}

// first returns the first of the texts that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
