package store

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Limits of a redacted text, and of what counts as a secret: shorter values occur in ordinary words.
const (
	maxText   = 512
	minSecret = 6
)

var redactions = []*regexp.Regexp{
	regexp.MustCompile(`\?[^\s"'<>]+`), // the query of a URL: signatures and tokens
	regexp.MustCompile(`(?i)\b(bearer|basic|sharedkey|aws4-hmac-sha256)\s+\S+`),
	regexp.MustCompile(`(?i)\b(x-amz-[a-z-]+|x-goog-[a-z-]+|authorization|signature|sig|credential|awsaccesskeyid|accesskeyid|access_token|id_token|assertion|secret|password|token)["']?\s*[=:]\s*["']?[^\s"'<>&,;]+`),
	regexp.MustCompile(`(?is)<(AWSAccessKeyId|StringToSign|CanonicalRequest|SignatureProvided|StringToSignBytes|CanonicalRequestBytes|AuthenticationErrorDetail)>.*?</`),
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*KEY-----.*?(-----END [A-Z ]*KEY-----|$)`),
}

// redactor removes secrets from the texts of errors, which end in status, events and logs.
type redactor struct{ secrets []string }

func newRedactor(keys Keys) redactor {
	var secrets []string
	add := func(value string) {
		if value = strings.TrimSpace(value); len(value) >= minSecret {
			secrets = append(secrets, value, url.QueryEscape(value), url.PathEscape(value))
		}
	}
	for _, raw := range keys.Files {
		add(string(raw))
		fields := map[string]any{} // service-account.json
		if json.Unmarshal(raw, &fields) == nil {
			for _, name := range []string{"private_key", "private_key_id"} {
				value, _ := fields[name].(string)
				add(value)
			}
		}
		// A SAS token: sig=…
		if query, err := url.ParseQuery(strings.TrimPrefix(string(raw), "?")); err == nil {
			add(query.Get("sig"))
		}
	}
	// The longest first, so that no part of a secret remains.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return redactor{secrets: slices.Compact(secrets)}
}

// text returns a text in one line of at most maxText bytes, without secrets.
func (r redactor) text(text string) string {
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, "(redacted)")
	}
	for _, pattern := range redactions {
		text = pattern.ReplaceAllString(text, "(redacted)")
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
