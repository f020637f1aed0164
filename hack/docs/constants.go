package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// imperatives start the sentences of a comment that say what a person does.
var imperatives = strings.Fields("Accept Add Annotate Ask Attach Bring Change Check Choose Correct Create Decide Delete Enable Find Fix Follow Free Give If " +
	"Grant Grow Increase Install Look Lower Make Move Nothing Raise Read Reduce Remove Rename Repair Replace Restart Restore Resume Run Save " +
	"See Set Split Start Stop Try Unset Upgrade Use Wait")

// constant is a documented constant.
type constant struct {
	name    string // in Go
	value   string
	typ     string
	block   string // the comment of its const ( … )
	text    string // its own comment
	meaning string
	remedy  string
}

// constants are the string constants of the Go files in one folder, without tests and without generated files.
func constants(dir string) ([]constant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []constant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "zz_") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range parsed.Decls {
			if group, ok := decl.(*ast.GenDecl); ok && group.Tok == token.CONST {
				all = append(all, ofGroup(group)...)
			}
		}
	}
	return all, nil
}

func ofGroup(group *ast.GenDecl) []constant {
	var all []constant
	for _, spec := range group.Specs {
		value := spec.(*ast.ValueSpec)
		if len(value.Names) != 1 || len(value.Values) != 1 {
			continue
		}
		literal, ok := value.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		c := constant{name: value.Names[0].Name, block: oneLine(group.Doc.Text())}
		c.value, _ = strconv.Unquote(literal.Value)
		if typ, ok := value.Type.(*ast.Ident); ok {
			c.typ = typ.Name
		}
		text := value.Doc.Text()
		if text == "" {
			text = value.Comment.Text()
		}
		if text == "" && !group.Lparen.IsValid() {
			text = group.Doc.Text()
		}
		c.text = oneLine(text)
		c.meaning, c.remedy = explain(c.name, c.text)
		all = append(all, c)
	}
	return all
}

// explain takes the constant's name off its comment, and splits the comment before the first sentence that is an imperative:
// before it is the meaning, from there on what to do.
func explain(name, text string) (meaning, remedy string) {
	text = strings.TrimPrefix(text, name)
	for _, prefix := range []string{":", " means that ", " means ", " is "} {
		if after, ok := strings.CutPrefix(text, prefix); ok {
			text = strings.ReplaceAll(after, ", and that ", ", and ")
			break
		}
	}
	sentences := strings.SplitAfter(capital(strings.TrimSpace(text)), ". ")
	first := slices.IndexFunc(sentences[1:], func(sentence string) bool {
		word, _, _ := strings.Cut(sentence, " ")
		return slices.Contains(imperatives, strings.TrimRight(word, ".,:"))
	})
	if first < 0 {
		first = len(sentences) - 1
	}
	return strings.TrimSpace(strings.Join(sentences[:first+1], "")), strings.Join(sentences[first+1:], "")
}

// capital makes the first letter of a text a capital, unless the first word is a name such as spec.image or cert-manager.
func capital(text string) string {
	if first, _, _ := strings.Cut(text, " "); first == "" || strings.ContainsAny(strings.TrimRight(first, ".,:"), ".-_") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// reasonsPage lists conditions, phases and reasons of all kinds.
func reasonsPage(root string, kinds []string) (string, error) {
	conditions, phases, reasons := map[string][][]string{}, map[string][][]string{}, map[string][][]string{}
	err := filepath.WalkDir(filepath.Join(root, "api"), func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		all, err := constants(dir)
		for _, c := range all {
			kind := kindsOf(c, kinds)
			if filepath.Base(filepath.Dir(dir)) == "meta" {
				kind = "all"
			}
			var rows map[string][][]string
			texts := []string{cell(c.meaning)}
			switch {
			case strings.HasPrefix(c.name, "Reason"):
				rows, texts = reasons, append(texts, cell(c.remedy))
			case strings.HasSuffix(c.typ, "Phase"):
				rows = phases
			case c.typ == "" && strings.Contains(c.text, "is True"):
				rows = conditions
			default:
				continue
			}
			if c.meaning == "" {
				return fmt.Errorf("%s: %s has no comment, which users read in docs/reference", dir, c.name)
			}
			add(rows, c.value, kind, texts...)
		}
		return err
	})
	if err == nil && len(reasons) == 0 {
		err = errors.New("no constant Reason* was found in api/")
	}
	return fmt.Sprintf("# Conditions, phases and reasons\n\nThe condition `Ready` sums up the other conditions of an object. "+
		"The columns READY, STATUS and REASON of `kubectl get` show the status of Ready, the phase and the reason of Ready. "+
		"Scripts may compare names. Messages are for people and can change.\n\n```sh\nkubectl get fettle -A\n```\n\n"+
		"## Reasons\n\n%s\n## Conditions\n\n%s\n## Phases\n\n%s",
		sorted([]string{"Reason", "Kinds", "Meaning", "What to do"}, reasons),
		sorted([]string{"Condition", "Kinds", "Meaning"}, conditions), sorted([]string{"Phase", "Kinds", "Meaning"}, phases)), err
}

// add adds a row, or the kind to the row of another kind that has the same texts.
func add(rows map[string][][]string, name, kind string, texts ...string) {
	for _, row := range rows[name] {
		if slices.Equal(row[1:], texts) {
			row[0] += ", " + kind
			return
		}
	}
	rows[name] = append(rows[name], append([]string{kind}, texts...))
}

// kindsOf reads the kinds off the comment of the block: "Reasons of a WebApp's conditions", "Phases of a BackupRun or Restore".
func kindsOf(c constant, kinds []string) string {
	var found []string
	for word := range strings.FieldsSeq(c.block) {
		word = strings.TrimSuffix(strings.TrimSuffix(strings.Trim(word, ",."), "'s"), "s")
		if slices.Contains(kinds, word) && !slices.Contains(found, word) {
			found = append(found, word)
		}
	}
	return strings.Join(found, ", ")
}

func sorted(columns []string, rows map[string][][]string) string {
	var all [][]string
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		for _, row := range rows[name] {
			all = append(all, append([]string{"`" + name + "`"}, row...))
		}
	}
	return table(columns, all)
}

type codeDir struct{ path, title string }

// codesPage lists the constants of a type Code in the packages.
func codesPage(root string, dirs []codeDir) (string, error) {
	out := &strings.Builder{}
	out.WriteString("# Codes\n\nEach decision of an agent and each step of the operator for a PostgreSQL has a code. " +
		"Log entries have it in the field `code`. Codes are stable, log messages are not.\n")
	for _, dir := range dirs {
		all, err := constants(filepath.Join(root, dir.path))
		if err != nil {
			return "", err
		}
		rows := map[string][][]string{}
		for _, c := range all {
			if c.typ == "Code" {
				if c.meaning == "" {
					return "", fmt.Errorf("%s: %s has no comment, which users read in docs/reference", dir.path, c.name)
				}
				rows[c.value] = append(rows[c.value], []string{cell(c.meaning), cell(c.remedy)})
			}
		}
		if len(rows) > 0 {
			fmt.Fprintf(out, "\n## %s\n\n%s", dir.title, sorted([]string{"Code", "Meaning", "What to do"}, rows))
		}
	}
	return out.String(), nil
}
