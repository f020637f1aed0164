package render

// The bounds of a rendering. A configuration beyond one of them is refused, with an error that names the bound.
const (
	// MaxTemplate is the size of one template in bytes, MaxTemplates that of all of them.
	MaxTemplate  = 64 << 10
	MaxTemplates = 1 << 20
	// MaxKeys is the number of keys and files.
	MaxKeys = 2000
	// MaxDepth is how deep blocks, else-ifs and parentheses of a template nest, counted together.
	MaxDepth = 20
	// MaxData is the size in bytes of what goes into one ConfigMap or Secret, names of keys included. The API server
	// accepts no more.
	MaxData = 1 << 20
	// MaxSteps is the number of steps of the rendering of all templates: each text, action, operand, and turn of a loop
	// is one.
	MaxSteps = 1_000_000
	// MaxWork is the number of bytes that functions may read and produce in the rendering of all templates.
	MaxWork = 16 << 20
	// MaxSchema is the size of one schema in bytes.
	MaxSchema = 64 << 10
	// MaxSchemaWork is the number of parts of a schema times the number of parts of what it is compared with, at most.
	// Each scalar, list and object is a part, and each 256 bytes of text.
	MaxSchemaWork = 1_000_000
	// MaxPattern is the size of a pattern in a schema, in instructions of the machine that matches it.
	MaxPattern = 2000
	// MaxMatch is the sum over all patterns and texts that they are compared with: size of the pattern times bytes of text.
	MaxMatch = 64 << 20
	// MaxFaults is the number of faults that an Error lists.
	MaxFaults = 20
	// MaxProblem is the length of the text of one fault, in bytes.
	MaxProblem = 512
)
