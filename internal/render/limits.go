package render

// The limits of a rendering. A configuration beyond one of them is rejected, with an error that names the limit.
const (
	// maxTemplate is the maximum size of one template in bytes, maxTemplates of all templates.
	maxTemplate  = 64 << 10
	maxTemplates = 1 << 20
	// maxKeys is the maximum number of keys and files.
	maxKeys = 2000
	// maxDepth is the maximum depth of nested blocks, else-ifs and parentheses of a template, counted together.
	maxDepth = 20
	// maxData is the maximum size of one ConfigMap or Secret in bytes, including the names of keys. The API server accepts no more.
	maxData = 1 << 20
	// maxSteps is the maximum number of steps in the rendering of all templates. Each text, action, operand and loop iteration is one step.
	maxSteps = 1_000_000
	// maxWork is the maximum number of bytes that functions may read and produce in the rendering of all templates.
	maxWork = 16 << 20
	// maxSchema is the maximum size of one schema in bytes.
	maxSchema = 64 << 10
	// maxSchemaWork is the maximum product of the number of parts of a schema and of the validated document. Each scalar, list and object
	// is a part, and each 256 bytes of text.
	maxSchemaWork = 1_000_000
	// maxPattern is the maximum size of a pattern in a schema, in instructions of the regular expression's program.
	maxPattern = 2000
	// maxMatch is the maximum sum, over all patterns and matched texts, of the pattern's size times the text's bytes.
	maxMatch = 64 << 20
	// maxFaults is the maximum number of faults in an Error.
	maxFaults = 20
	// maxProblem is the maximum length of one fault's text in bytes.
	maxProblem = 512
)
