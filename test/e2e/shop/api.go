package main

import (
	"fmt"
	"regexp"
)

// Headers of requests to the backend.
const (
	// headerKey identifies an order. A repeated request with the same key gets the answer of the first one.
	headerKey = "Idempotency-Key"
	// headerSession identifies a visitor.
	headerSession = "Session"
)

const (
	maxQuantity = 99
	// maxKeys is the number of orders that one request can ask for.
	maxKeys = 100
	// maxBody is the size in bytes of an answer or request body that is read.
	maxBody = 64 << 10
)

// product is an entry of the catalogue.
type product struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Cents int64  `json:"cents"`
}

// order is a stored order.
type order struct {
	ID       int64  `json:"id"`
	Key      string `json:"key"`
	Product  string `json:"product"`
	Quantity int    `json:"quantity"`
	// Cents is the total.
	Cents int64 `json:"cents"`
}

// request is the body of POST /orders.
type request struct {
	Product  string `json:"product"`
	Quantity int    `json:"quantity"`
}

// summary is the answer to GET /orders: the number of all orders, and the orders that the request asked for.
type summary struct {
	Count  int64   `json:"count"`
	Orders []order `json:"orders"`
}

// catalogue are the products.
var catalogue = []product{
	{ID: "espresso", Name: "Espresso cups, set of 4", Cents: 2490},
	{ID: "kettle", Name: "Gooseneck kettle", Cents: 5900},
	{ID: "beans", Name: "Coffee beans, 1 kg", Cents: 1850},
}

var identifier = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// newOrder is the order of a request, not yet stored. Errors are for the client.
func newOrder(key string, r request) (order, error) {
	if !identifier.MatchString(key) {
		return order{}, fmt.Errorf("%s: must be 1 to 64 letters, digits, '-' or '_'", headerKey)
	}
	if r.Quantity < 1 || r.Quantity > maxQuantity {
		return order{}, fmt.Errorf("quantity: must be 1 to %d", maxQuantity)
	}
	for _, p := range catalogue {
		if p.ID == r.Product {
			return order{Key: key, Product: p.ID, Quantity: r.Quantity, Cents: p.Cents * int64(r.Quantity)}, nil
		}
	}
	return order{}, fmt.Errorf("product: %q is not in the catalogue", r.Product)
}
