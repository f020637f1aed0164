// Package dockerfile reads the part of the Dockerfile language that images of data need, and builds them without a container engine.
package dockerfile

import (
	"bufio"
	"encoding/json"
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
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ' ' || c == '\t':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("a quote or a backslash at the end of %q is left open", line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
