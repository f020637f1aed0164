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
	// MaxFaults is the number of faults that an Error lists.
	MaxFaults = 20
	// MaxProblem is the length of the text of one fault, in bytes.
	MaxProblem = 512
)
