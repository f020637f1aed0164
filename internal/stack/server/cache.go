package server

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
)

const (
	cacheContainer = "cache"
	cachePortName  = "redis"
	cachePort      = 6379
	// cacheUser is the user that a password without a user name belongs to.
	cacheUser = "default"
	// keyCacheConf is the key of the configuration file with the password. The servers read no environment variables, and arguments
	// are visible to everybody who may read pods.
	keyCacheConf = "server.conf"

	// cacheOverhead is the memory of the server beside its contents, in addition to a quarter of them, in bytes.
	cacheOverhead = 32 << 20
	// cacheGraceSeconds is enough: there is nothing to save.
	cacheGraceSeconds = 10
)

// cacheFlavor is how Valkey and Redis differ.
type cacheFlavor struct{ image, version, server, client string }

func flavorOf(c *platformv1.Cache) cacheFlavor {
	if c.Type == platformv1.Redis {
		return cacheFlavor{"docker.io/library/redis", "7", "redis-server", "redis-cli"}
	}
	return cacheFlavor{"docker.io/valkey/valkey", "8", "valkey-server", "valkey-cli"}
}

// Cache returns the desired objects of a cache: the StatefulSet, the Service, and a NetworkPolicy if clients are limited.
func Cache(in Input, c *platformv1.Cache) []runtime.ApplyConfiguration {
	return append([]runtime.ApplyConfiguration{
		in.statefulSet(cachePod(&in, c)),
		in.service(cachePortName, cachePort),
	}, in.networkPolicy(cachePortName)...)
}

// CacheImage is the image of a cache.
func CacheImage(c *platformv1.Cache) string {
	flavor := flavorOf(c)
	return cmp.Or(c.Image, flavor.image+":"+cmp.Or(c.Version, flavor.version))
}

func cachePod(in *Input, c *platformv1.Cache) *corev1ac.PodSpecApplyConfiguration {
	flavor, memory := flavorOf(c), c.Memory.Value()
	ping := []string{flavor.client, "-e", "ping"}
	main := container(cacheContainer, CacheImage(c), cachePortName, cachePort).
		WithArgs(flavor.server, secretPath+"/"+keyCacheConf,
			"--save", "", "--appendonly", "no",
			"--maxmemory", strconv.FormatInt(memory, 10), "--maxmemory-policy", c.EvictionPolicy).
		WithEnv(in.fromSecret("REDISCLI_AUTH", keyPassword)).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(bytesOfMemory(memory)).
			WithLimits(bytesOfMemory(memory + memory/4 + cacheOverhead))).
		WithStartupProbe(execProbe(ping, 1, 5, 60)).
		WithReadinessProbe(execProbe(ping, 5, 5, 2)).
		// A restart empties the cache, and a long script of a client is no reason for one.
		WithLivenessProbe(execProbe(ping, 10, 5, 6))
	pod := corev1ac.PodSpec()
	in.withSecretFile(pod, main, keyCacheConf)
	// The entry point insists on a writable working directory.
	withScratch(pod, main, "data", "/data")
	return restricted(pod, main, cacheGraceSeconds)
}

func bytesOfMemory(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(n, resource.BinarySI)}
}

// CacheSecret is the Secret with the credentials of a cache: host, port, username, password and uri for clients, and server.conf for the
// server. The password consists of letters, digits, "-" and "_".
func CacheSecret(in Input, _ *platformv1.Cache, password string) *corev1.Secret {
	port := strconv.Itoa(cachePort)
	uri := url.URL{Scheme: "redis", User: url.UserPassword(cacheUser, password), Host: in.host() + ":" + port, Path: "/0"}
	return in.secret(map[string]string{
		keyHost: in.host(), keyPort: port, keyUsername: cacheUser, keyPassword: password, keyURI: uri.String(),
		keyCacheConf: fmt.Sprintf("requirepass %q\n", password),
	})
}
