package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Keys are the contents of the Secrets of a destination. Both fields may be empty.
type Keys struct {
	// Files are the values of destination.credentialsSecretRef by key. Without any, the pod's ServiceAccount has access to the bucket.
	Files map[string][]byte
	// CA has the CA certificates of the store in PEM. Without any, the public ones count.
	CA []byte
}

// KeysFromDirs reads the keys from a mounted Secret and the CA certificates from a file. What does not exist is empty.
func KeysFromDirs(keysDir, caFile string) (Keys, error) {
	keys := Keys{Files: map[string][]byte{}}
	entries, err := os.ReadDir(keysDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Keys{}, fmt.Errorf("read keys of the store: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") { // the kubelet's links to the current version
			continue
		}
		value, err := os.ReadFile(filepath.Join(keysDir, entry.Name()))
		if err != nil {
			return Keys{}, fmt.Errorf("read keys of the store: %w", err)
		}
		keys.Files[entry.Name()] = value
	}
	keys.CA, err = os.ReadFile(caFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Keys{}, fmt.Errorf("read CA certificates of the store: %w", err)
	}
	return keys, nil
}

// value returns the first of the keys that has a value, without the line break that editors add.
func (k Keys) value(names ...string) string {
	for _, name := range names {
		if value := strings.TrimSpace(string(k.Files[name])); value != "" {
			return value
		}
	}
	return ""
}
