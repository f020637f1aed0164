package scram

import (
	cryptorand "crypto/rand"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// TestVerifier_rfc7677 has the example of RFC 7677 in the format of RFC 5803. Python's hashlib computed the keys from the
// RFC's password, salt and count.
func TestVerifier_rfc7677(t *testing.T) {
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	must(t, err)
	got, err := Verifier("pencil", salt)
	want := "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
}

// TestSASLPrep has the examples of RFC 4013, and passwords that it rejects, which PostgreSQL uses unchanged.
func TestSASLPrep(t *testing.T) {
	cases := map[string]string{
		"I\u00adX": "IX", "user": "user", "USER": "USER", "\u00aa": "a", "\u2168": "IX", "\u00e9\u00a0x": "\u00e9 x", "e\u0301": "\u00e9",
		"\u0007": "\u0007", "\u0627\u0031": "\u0627\u0031", "\u0627\u0031\u0628": "\u0627\u0031\u0628",
		"\U0001f511": "\U0001f511", "\u2168\U0001f511": "\u2168\U0001f511", "\u00ad": "\u00ad", "\xff\u2168": "\xff\u2168", "\ue000\u2168": "\ue000\u2168",
	}
	for password, want := range cases {
		if got := saslPrep(password); got != want {
			t.Errorf("%q: want %q, got %q", password, want, got)
		}
	}
}

func TestVerifier_rejects(t *testing.T) {
	for _, password := range []string{"", "a\x00b", strings.Repeat("x", 1025)} {
		if got, err := Verifier(password, make([]byte, SaltSize)); err == nil {
			t.Errorf("a password of %d bytes became %s", len(password), got)
		}
	}
}

// TestVerifier: a verifier depends only on password and salt.
func TestVerifier(t *testing.T) {
	salt := []byte("0123456789abcdef")
	stored, err := Verifier("secret", salt)
	must(t, err)
	if again, err := Verifier("secret", salt); err != nil || again != stored {
		t.Errorf("the same password and salt make another verifier: %v", err)
	}
	if other, err := Verifier("Secret", salt); err != nil || other == stored {
		t.Errorf("another password makes the same verifier: %v", err)
	}
	if other, err := Verifier("secret", []byte("fedcba9876543210")); err != nil || other[strings.LastIndex(other, ":"):] == stored[strings.LastIndex(stored, ":"):] {
		t.Errorf("another salt makes the same keys: %v", err)
	}
	for _, size := range []int{0, SaltSize - 1, SaltSize + 1} {
		if _, err := Verifier("secret", make([]byte, size)); err == nil {
			t.Errorf("a salt of %d bytes is taken", size)
		}
	}
}

func TestGenerate(t *testing.T) {
	seen, used := map[string]bool{}, map[rune]bool{}
	for range 1000 {
		password, err := Generate()
		must(t, err)
		if len(password) != 32 || strings.ContainsAny(password[:1], "-_0123456789") || strings.Trim(password, alphabet) != "" || seen[password] {
			t.Fatalf("%q", password)
		}
		seen[password] = true
		for _, r := range password {
			used[r] = true
		}
	}
	if len(used) != 64 {
		t.Errorf("only %d characters are used", len(used))
	}
}

// TestVerifier_acceptedByServer logs in to a real server, and compares the verifiers with the server's own.
func TestVerifier_acceptedByServer(t *testing.T) {
	ca := testpg.NewCA(t)
	i := ca.Primary(t, "scram-0")
	conn, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres", i.SocketDir(), i.Settings.Port))
	must(t, err)
	defer conn.Close(t.Context()) // the server ends too
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE ROLE app LOGIN")
	login := func(password string) error {
		cfg, err := pgx.ParseConfig(fmt.Sprintf("host=127.0.0.1 port=%d user=app dbname=postgres sslmode=verify-ca sslrootcert=%s", i.Settings.Port, ca.File("ca.crt")))
		must(t, err)
		cfg.Password = password
		c, err := pgx.ConnectConfig(t.Context(), cfg)
		if err == nil {
			err = c.Close(t.Context())
		}
		return err
	}
	generated, err := Generate()
	must(t, err)
	// pgx prepares other passwords differently (RFC 8265), so those are compared below.
	for _, password := range []string{generated, "with 'quotes' and \\", "pässwörd"} {
		salt := make([]byte, SaltSize)
		_, _ = cryptorand.Read(salt) // it never fails
		stored, err := Verifier(password, salt)
		must(t, err)
		exec("ALTER ROLE app PASSWORD '" + stored + "'")
		if err := login(password); err != nil {
			t.Errorf("%q: %v", password, err)
		}
		if err := login(password + "x"); err == nil {
			t.Errorf("%q with an x was let in", password)
		}
	}
	for _, password := range passwords() {
		exec("ALTER ROLE app PASSWORD '" + strings.ReplaceAll(password, "'", "''") + "'")
		var stored string
		must(t, conn.QueryRow(t.Context(), "SELECT rolpassword FROM pg_authid WHERE rolname = 'app'").Scan(&stored))
		salt, err := base64.StdEncoding.DecodeString(stored[strings.Index(stored, ":")+1 : strings.LastIndex(stored, "$")])
		must(t, err)
		if again, err := Verifier(password, salt); err != nil || again != stored {
			t.Errorf("the server prepares %q in another way: %q here", password, saslPrep(password))
		}
	}
}

// passwords are random passwords of characters with special treatment.
func passwords() []string {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
	special := []rune("aZ9 é\u00a0\u00ad\u200b\u2168ﬁ\u0627\u0628\u0031\u05d0\U0001f511\u0221\ue000\u0301\u1e9b\u0340\u2028ｱ㎏")
	var all []string
	for range 100 {
		var text []rune
		for range 1 + random.IntN(6) {
			text = append(text, special[random.IntN(len(special))])
		}
		all = append(all, string(text))
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
