// Package render renders the templates of a configuration. It is pure: no I/O, no clock, no environment. The same input gives the same
// bytes. Templates use a small subset of Go's text/template, so every rendering ends within known limits.
package render

// Value is one variable of a configuration.
type Value struct {
	// Text is the value in the template; any bytes.
	Text string
	// Secret means that Text comes from a Secret, and must not appear outside one.
	Secret bool
}

// Input is the complete input of a rendering.
type Input struct {
	// Application, Environment, Namespace and Name are available to templates under these names.
	Application, Environment, Namespace, Name string
	// Values are available to templates as .Values.
	Values map[string]Value
	// Config has a template for each key, Files a template for each file name.
	Config, Files map[string]string
}

// Output is the rendered text of each key and file. No key is in both maps.
type Output struct {
	// Data holds the texts that depend on no secret value.
	Data map[string]string
	// Secret holds the texts that may depend on a secret value, including texts that only contain a part conditionally.
	Secret map[string]string
	// Files are the keys that came from Input.Files, sorted.
	Files []string
}

// Schemas are JSON Schemas, as JSON, for the rendered texts.
type Schemas struct {
	// Config is the schema of the object {key: text} of all keys that are not files; empty means any.
	Config []byte
	// Files has the schema of the document in a file, by file name.
	Files map[string][]byte
}
