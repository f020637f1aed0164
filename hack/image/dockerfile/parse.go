// Package dockerfile reads the part of the Dockerfile language that images of data need, and builds them without a container engine.
package dockerfile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Stage is what follows one FROM.
type Stage struct {
	// Base is an image's name, the name of an earlier stage, or scratch.
	Base string
	// Name is empty if the stage has none.
	Name  string
	Steps []Step
}

// Step is one instruction.
type Step struct {
	Line        int
	Instruction string   // in capitals
	Flags       []string // --from=builder
	Words       []string
	// Exec says that the words came as a JSON array, so that no shell is meant.
	Exec bool
}

var known = []string{"LABEL", "COPY", "ADD", "ENTRYPOINT", "CMD", "USER", "ENV", "WORKDIR", "RUN"}

// Parse reads a Dockerfile and refuses, with its line, whatever Build couldn't do.
func Parse(r io.Reader) ([]Stage, error) {
	var stages []Stage
	scanner := bufio.NewScanner(r)
	for number := 1; scanner.Scan(); number++ {
		line, start := strings.TrimSpace(scanner.Text()), number
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for strings.HasSuffix(line, `\`) && scanner.Scan() {
			number++
			if next := strings.TrimSpace(scanner.Text()); !strings.HasPrefix(next, "#") {
				line = strings.TrimSuffix(line, `\`) + " " + next
			}
		}
		var err error
		if stages, err = appendLine(stages, line, start); err != nil {
			return nil, fmt.Errorf("line %d: %w", start, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(stages) == 0 {
		return nil, fmt.Errorf("there is no FROM")
	}
	return stages, nil
}

func appendLine(stages []Stage, line string, number int) ([]Stage, error) {
	instruction, rest, _ := strings.Cut(line, " ")
	instruction, rest = strings.ToUpper(instruction), strings.TrimSpace(rest)
	if instruction == "FROM" {
		stage, err := parseFrom(rest)
		return append(stages, stage), err
	}
	if !slices.Contains(known, instruction) {
		return nil, fmt.Errorf("%s is not supported: only FROM, %s are", instruction, strings.Join(known, ", "))
	}
	if len(stages) == 0 {
		return nil, fmt.Errorf("%s before the first FROM", instruction)
	}
	step, err := parseStep(instruction, rest)
	if err != nil {
		return nil, err
	}
	step.Line = number
	last := &stages[len(stages)-1]
	last.Steps = append(last.Steps, step)
	return stages, nil
}

func parseFrom(rest string) (Stage, error) {
	words := strings.Fields(rest)
	switch {
	case len(words) == 1:
		return Stage{Base: words[0]}, nil
	case len(words) == 3 && strings.EqualFold(words[1], "as"):
		return Stage{Base: words[0], Name: words[2]}, nil
	default:
		return Stage{}, fmt.Errorf("FROM needs an image's name and may have AS and a name, not %q", rest)
	}
}

func parseStep(instruction, rest string) (Step, error) {
	step := Step{Instruction: instruction}
	for strings.HasPrefix(rest, "--") {
		flag, after, _ := strings.Cut(rest, " ")
		step.Flags, rest = append(step.Flags, flag), strings.TrimSpace(after)
	}
	if strings.HasPrefix(rest, "[") && json.Unmarshal([]byte(rest), &step.Words) == nil {
		step.Exec = true
	} else {
		words, err := split(rest)
		if err != nil {
			return step, err
		}
		step.Words = words
	}
	if len(step.Words) == 0 {
		return step, fmt.Errorf("%s without arguments", instruction)
	}
	if instruction != "RUN" && slices.ContainsFunc(step.Words, func(w string) bool { return strings.Contains(w, "$") }) {
		return step, fmt.Errorf("variables are not supported: write the value out")
	}
	if instruction == "RUN" && !isCacheLine(step.Words) {
		return step, fmt.Errorf("RUN is not supported, but for `opm serve FOLDER --cache-dir=FOLDER --cache-only`: "+
			"there is no container engine that could run %q", rest)
	}
	return step, nil
}

// isCacheLine recognises the command that `opm generate dockerfile` writes to prepare a catalog's cache.
func isCacheLine(words []string) bool {
	return len(words) == 5 && (words[0] == "/bin/opm" || words[0] == "opm") && words[1] == "serve" && strings.HasPrefix(words[2], "/") &&
		strings.HasPrefix(words[3], "--cache-dir=/") && words[4] == "--cache-only"
}

// split cuts a line into words as a shell would: quotes keep spaces and are removed, a backslash keeps the next character.
func split(line string) ([]string, error) {
	var words []string
	for rest := strings.TrimLeft(line, " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		word, after, err := firstWord(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", err, line)
		}
		words, rest = append(words, word), after
	}
	return words, nil
}

// firstWord is the word that the text begins with, without its quotes, and what comes after it.
func firstWord(text string) (word, rest string, err error) {
	var b strings.Builder
	for text != "" && text[0] != ' ' && text[0] != '\t' {
		part, after := text[:1], text[1:]
		switch text[0] {
		case '\\':
			if after == "" {
				return "", "", errors.New("nothing follows the backslash")
			}
			part, after = after[:1], after[1:]
		case '"', '\'':
			if part, after, err = quoted(text); err != nil {
				return "", "", err
			}
		}
		b.WriteString(part)
		text = after
	}
	return b.String(), text, nil
}

// quoted is what stands between the quote that the text begins with and the next one, and what comes after that. Between double quotes,
// a backslash keeps the next character.
func quoted(text string) (content, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return b.String(), text[i+1:], nil
		case text[i] == '\\' && text[0] == '"' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return "", "", errors.New("a quote is left open")
}
