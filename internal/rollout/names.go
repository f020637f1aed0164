package rollout

import "strings"

// versionDigits end the name of a version, after a dash.
const versionDigits = 10

// baseOf returns the target that name is a version of; false if it does not look like one.
func baseOf(name string) (string, bool) {
	at := len(name) - versionDigits - 1
	if at <= 0 || name[at] != '-' {
		return "", false
	}
	for _, c := range name[at+1:] {
		if !strings.ContainsRune("0123456789abcdef", c) {
			return "", false
		}
	}
	return name[:at], true
}

// annotation is the name of the owner's annotations. No owner's is UsesAnnotation: names of objects hold no underscore.
func (o Owner) annotation() string {
	if key := o.Prefix + "/" + o.Name; key != UsesAnnotation {
		return key
	}
	return UsesAnnotation + "_"
}

func isOurs(annotation string) bool {
	return strings.HasPrefix(annotation, ConfigPrefix+"/") || strings.HasPrefix(annotation, VotingPrefix+"/")
}
