package fakepg

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// agent is the fake agent of one pod, with its own loopback address.
type agent struct {
	server  *http.Server
	address string
	key     types.NamespacedName // of the PostgreSQL
}

func (a *agent) addressOrEmpty() string {
	if a == nil {
		return ""
	}
	return a.address
}

// addresses counts the addresses used by this process.
var addresses atomic.Uint32

// serve starts the pod's agent once, and returns its address.
func (p *Kubelet) serve(ctx context.Context, w *fixture, pod *corev1.Pod) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.agents[pod.UID]; a != nil || p.closed {
		return a.addressOrEmpty(), ctx.Err()
	}
	listener, address, err := listen(ctx)
	if err != nil {
		return "", err
	}
	server := &http.Server{
		Handler: p.handler(w.key, pod.Name, pod.UID), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // clients that crash are part of the tests
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return p.certificate(hello.Context(), w.key)
		}},
	}
	p.goroutines.Go(func() { _ = server.ServeTLS(listener, "", "") })
	p.agents[pod.UID] = &agent{server, address, w.key}
	return address, nil
}

// listen finds an address that no other process uses.
func listen(ctx context.Context) (net.Listener, string, error) {
	var last error
	for range 100 {
		n := addresses.Add(1)
		address := fmt.Sprintf("127.%d.%d.%d", 10+os.Getpid()%200, n/250%250, 1+n%250)
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(agentapi.Port)))
		if err == nil {
			return listener, address, nil
		}
		last = err
	}
	return nil, "", fmt.Errorf("no address for an agent: %w", last)
}

// dropAgents stops the agents of deleted pods.
func (p *Kubelet) dropAgents(w *fixture) {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive := map[types.UID]bool{}
	for _, pods := range []map[string]*corev1.Pod{w.pods, w.terminating} {
		for _, pod := range pods {
			alive[pod.UID] = true
		}
	}
	for uid, a := range p.agents {
		// A pod that the cache does not show yet is not deleted: its UID is the latest one for its name.
		if a.key == w.key && !alive[uid] && !p.isNewest(uid) {
			_ = a.server.Close()
			delete(p.agents, uid)
			delete(p.startedAt, uid)
			delete(p.loaded, uid)
		}
	}
}

// isNewest returns whether no later pod of this name was created than the one with the UID.
func (p *Kubelet) isNewest(uid types.UID) bool {
	for _, known := range p.uids {
		if known == uid {
			return true
		}
	}
	return false
}

// certificate reads the server certificate that the operator created.
func (p *Kubelet) certificate(ctx context.Context, key types.NamespacedName) (*tls.Config, error) {
	secret := &corev1.Secret{}
	if err := p.cache.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: key.Name + "-server"}, secret); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

func (p *Kubelet) handler(key types.NamespacedName, pod string, uid types.UID) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentapi.PathStatus, func(w http.ResponseWriter, r *http.Request) {
		pg := &databasev1alpha1.PostgreSQL{}
		if err := p.cache.Get(r.Context(), key, pg); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		lease, claim := &coordinationv1.Lease{}, &corev1.PersistentVolumeClaim{}
		if _, err := p.get(r.Context(), key, lease); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		volumes := volumesOf(lease)
		name := agentapi.ClaimTemplate(volumes) + "-" + pod
		if _, err := p.get(r.Context(), types.NamespacedName{Namespace: key.Namespace, Name: name}, claim); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		status := p.status(pg, claim, pod, uid, volumes)
		if status.Phase == agentapi.Running && status.Role == "" {
			status.Role = p.role(r.Context(), types.NamespacedName{Namespace: key.Namespace, Name: pod})
		}
		writeJSON(w, status)
	})
	mux.HandleFunc("POST "+agentapi.PathRestart, func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.PendingRestart, pod)
		p.Restarted = append(p.Restarted, pod)
		p.startedAt[uid] = time.Now()
		p.queue.Add(key)
		writeJSON(w, struct{}{})
	})
	mux.HandleFunc("PUT "+agentapi.PathDesired, func(w http.ResponseWriter, r *http.Request) {
		var desired agentapi.Desired
		if err := json.NewDecoder(r.Body).Decode(&desired); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result := p.recordApplied(key, desired)
		if p.applyFunc() != nil {
			var err error
			if result, err = p.applyFunc()(r.Context(), desired); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		if !slices.ContainsFunc(result.Items, func(item agentapi.Item) bool { return item.Error != "" }) {
			p.mu.Lock()
			p.applied[uid] = agentapi.Applied{Hash: desired.Hash, InsertLSN: result.InsertLSN}
			p.mu.Unlock()
		}
		writeJSON(w, result)
	})
	return mux
}

// volumesOf returns the number of the volumes that a Lease is about.
func volumesOf(lease *coordinationv1.Lease) int {
	if n, err := strconv.Atoi(lease.Annotations[databasev1alpha1.AnnotationVolumes]); err == nil {
		return n
	}
	return 1
}

func (p *Kubelet) status(pg *databasev1alpha1.PostgreSQL, claim *corev1.PersistentVolumeClaim, pod string, uid types.UID, volumes int) agentapi.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, held := p.NotReady[pod]
	total := uint64(claim.Status.Capacity.Storage().Value())
	used := min(total, uint64(pg.Spec.Storage.Value())*uint64(p.UsedPercent[pod])/100)
	status := agentapi.Status{
		Pod: pod, PodUID: string(uid), Phase: agentapi.Running, Ready: !held && p.startupLeftLocked(uid) <= 0, Timeline: wal.Timeline(p.Timeline), ServerVersion: "16.4",
		Generation: p.generation(uid, pg.Generation), PendingRestart: p.PendingRestart[pod], DiskTotal: total, DiskFree: total - used,
		Volumes: volumes,
	}
	if applied, ok := p.applied[uid]; ok {
		status.Applied = &applied
	}
	if wanted, ok := pg.RequestedVolumes(); pg.Spec.Hibernated || ok && wanted != volumes {
		status.Phase, status.Ready = agentapi.Stopped, false
	}
	if change := p.ChangeStatus[pod]; change != nil {
		change(&status)
	}
	return status
}

// role returns the role according to the pod's label. A running server that is not primary is a standby.
func (p *Kubelet) role(ctx context.Context, key types.NamespacedName) agentapi.Role {
	pod := &corev1.Pod{}
	if found, err := p.get(ctx, key, pod); err == nil && found && pod.Labels[databasev1alpha1.LabelRole] == databasev1alpha1.LabelRolePrimary {
		return agentapi.Primary
	}
	return agentapi.Replica
}

func (p *Kubelet) applyFunc() func(context.Context, agentapi.Desired) (agentapi.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Apply
}

// recordApplied records a request with desired objects. A role that is not rejected is stored.
func (p *Kubelet) recordApplied(key types.NamespacedName, desired agentapi.Desired) (result agentapi.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Applied = append(p.Applied, desired)
	if p.roles[key] == nil {
		p.roles[key] = map[string]agentapi.DesiredRole{}
	}
	for _, role := range desired.Roles {
		item := agentapi.Item{Kind: agentapi.KindRole, Name: role.Name, Error: p.ApplyErrors[role.Name]}
		if item.Error == "" {
			item.Changed = !reflect.DeepEqual(p.roles[key][role.Name], role)
			p.roles[key][role.Name] = role
		}
		result.Items = append(result.Items, item)
	}
	return result
}

// writeJSON writes JSON. The reader notices truncated responses.
func writeJSON(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
