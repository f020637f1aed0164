// Package render turns the templates of a configuration into texts. It is pure: no input or output, no clock, no
// environment; the same input gives the same bytes. Templates have the syntax of Go's text/template, of which a small
// subset is allowed, so that every rendering ends within known bounds.
package render

// Value is one variable of a configuration.
type Value struct {
	// Text is what the template sees; any bytes.
	Text string
	// Secret says that Text comes from a Secret, and must not be seen outside one.
	Secret bool
}

// Input is what a rendering depends on, all of it.
type Input struct {
	// Application, Environment, Namespace and Name are what templates see under these names.
	Application, Environment, Namespace, Name string
	// Values is what templates see as .Values.
	Values map[string]Value
	// Config has a template for each key, Files one for each file name.
	Config, Files map[string]string
}

// Output is what was rendered: the text of each key and file. No key is in both maps.
type Output struct {
	// Data holds what depends on no secret value.
	Data map[string]string
	// Secret holds what may depend on one: the text, or whether a part of it is there.
	Secret map[string]string
	// Files are the keys that came from Input.Files, in order.
	Files []string
}

// Schemas are JSON Schemas, as JSON, of what was rendered.
type Schemas struct {
	// Config is the schema of the object {key: text} of all keys that are no files; empty means any.
	Config []byte
	// Files has the schema of the document in a file, by file name.
	Files map[string][]byte
}
