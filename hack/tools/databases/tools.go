//go:build tools

// Package tools pins FerretDB, a server with the protocol of MongoDB whose version hack/tools/bin sets, and MongoDB's dump programs, for tests.
package tools

import (
	_ "github.com/FerretDB/FerretDB/cmd/ferretdb"
	_ "github.com/mongodb/mongo-tools/mongodump/main"
	_ "github.com/mongodb/mongo-tools/mongorestore/main"
)
