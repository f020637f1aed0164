package controllers_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"strconv"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/peer"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// serve runs the protocol of an agent with the certificate that the operator made.
func (d *databases) serve(ctx context.Context, set *k8sappsv1.StatefulSet, pod *corev1.Pod, address string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.agents[pod.UID] != nil {
		return nil
	}
	secret := &corev1.Secret{}
	if err := user.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: set.Name + "-server"}, secret); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	for uid, server := range d.agents { // the pod that had the address before is gone
		if server.Addr == address {
			_ = server.Close()
			delete(d.agents, uid)
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(peer.Port)))
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: address, Handler: d.handler(set.Name, pod.Name, pod.UID), ReadHeaderTimeout: poll * 100,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	d.agents[pod.UID] = server
	return nil
}

func (d *databases) handler(cluster, pod string, uid types.UID) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+peer.PathStatus, func(w http.ResponseWriter, r *http.Request) {
		pg := &databasev1alpha1.PostgreSQL{}
		if err := user.Get(r.Context(), client.ObjectKey{Namespace: d.namespace, Name: cluster}, pg); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		_, held := d.held[pod]
		total := uint64(pg.Spec.Storage.Value())
		_ = json.NewEncoder(w).Encode(peer.Status{
			Pod: pod, PodUID: string(uid), Phase: peer.Running, Ready: !held, Data: true, Timeline: wal.Timeline(d.timeline), ServerVersion: "16.4",
			Generation: pg.Generation, PendingRestart: d.pending[pod], DiskTotal: total, DiskFree: total * uint64(100-d.used[pod]) / 100,
		})
	})
	mux.HandleFunc("POST "+peer.PathRestart, func(w http.ResponseWriter, _ *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.pending, pod)
		d.restarted = append(d.restarted, pod)
		_, _ = w.Write([]byte("{}"))
	})
	mux.HandleFunc("PUT "+peer.PathDesired, func(w http.ResponseWriter, r *http.Request) {
		var wish peer.Desired
		if err := json.NewDecoder(r.Body).Decode(&wish); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.told = append(d.told, wish)
		var result peer.Result
		for _, role := range wish.Roles {
			result.Items = append(result.Items, peer.Item{Kind: peer.KindRole, Name: role.Name, Error: d.refuse[role.Name]})
		}
		_ = json.NewEncoder(w).Encode(result)
	})
	return mux
}
