package pki

import "testing"

func TestIsOwnHost(t *testing.T) {
	for name, want := range map[string]bool{
		"orders": true, "orders.shop": true, "ORDERS.shop.svc": true, "orders-ro.shop.svc.cluster.local.": true, "orders.shop.svc.example.org": true,
		"orders-pods": true, "orders-1.orders-pods": true, "orders-1.orders-pods.shop.svc": true,
		"orders2": false, "orders.elsewhere": false, "orders.elsewhere.svc": false, "orders.shop.svcs": false, "orders.shop.example.org": false,
		"orders-1.orders-pods.elsewhere.svc": false, "orders-1": false, "db.example.com": false, "192.0.2.1": false, "": false,
	} {
		if got := IsOwnHost("orders", "shop", name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	for _, name := range Hosts("orders", "shop") {
		if !IsOwnHost("orders", "shop", name) {
			t.Errorf("%q is in the certificate, and not known", name)
		}
	}
}
