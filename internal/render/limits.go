package render

// The limits of a rendering. A configuration beyond one of them is rejected, with an error that names the limit.
const (
	// MaxTemplate is the maximum size of one template in bytes, MaxTemplates of all templates.
	MaxTemplate  = 64 << 10
	MaxTemplates = 1 << 20
	// MaxKeys is the maximum number of keys and files.
	MaxKeys = 2000
	// MaxDepth is the maximum depth of nested blocks, else-ifs and parentheses of a template, counted together.
	MaxDepth = 20
	// MaxData is the maximum size of one ConfigMap or Secret in bytes, including the names of keys. The API server accepts no more.
	MaxData = 1 << 20
	// MaxSteps is the maximum number of steps in the rendering of all templates. Each text, action, operand and loop iteration is one step.
	MaxSteps = 1_000_000
	// MaxWork is the maximum number of bytes that functions may read and produce in the rendering of all templates.
	MaxWork = 16 << 20
	// MaxSchema is the maximum size of one schema in bytes.
	MaxSchema = 64 << 10
	// MaxSchemaWork is the maximum product of the number of parts of a schema and of the validated document. Each scalar, list and object
	// is a part, and each 256 bytes of text.
	MaxSchemaWork = 1_000_000
	// MaxPattern is the maximum size of a pattern in a schema, in instructions of the regular expression's program.
	MaxPattern = 2000
	// MaxMatch is the maximum sum, over all patterns and matched texts, of the pattern's size times the text's bytes.
	MaxMatch = 64 << 20
	// MaxFaults is the maximum number of faults in an Error.
	MaxFaults = 20
	// MaxProblem is the maximum length of one fault's text in bytes.
	MaxProblem = 512
)
