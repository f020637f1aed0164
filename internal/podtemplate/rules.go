package podtemplate

import (
	"cmp"
	"slices"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// OfWebApp are the rules for spec.podTemplate of a WebApp.
func OfWebApp(app *appsv1.WebApp) Rules {
	r := Rules{
		Main: appsv1.MainContainer, Pod: instead(webAppPod), Container: instead(webAppContainer),
		Env: map[string]string{}, MountPaths: map[string]string{}, Volumes: map[string]string{}, Ports: map[int32]string{app.Spec.Port: "spec.port"},
	}
	for _, e := range app.Spec.Env {
		r.Env[e.Name] = "spec.env"
	}
	for _, m := range app.Spec.VolumeMounts {
		r.MountPaths[m.MountPath] = "spec.volumeMounts"
	}
	for i := range app.Spec.Volumes {
		r.Volumes[app.Spec.Volumes[i].Name] = "spec.volumes"
	}
	for _, p := range app.Spec.Service.ExtraPorts {
		r.Ports[cmp.Or(p.TargetPort, p.Port)] = "spec.service.extraPorts"
	}
	return r
}

func instead(fixed map[string]string) func(string) string {
	return func(field string) string { return fixed[field] }
}

// webAppPod are fields that have one place in the spec, because Fettle or a policy depends on them, or that a Deployment does not have.
var webAppPod = map[string]string{
	"serviceAccountName":           "set spec.serviceAccountName instead",
	"serviceAccount":               "set spec.serviceAccountName instead",
	"automountServiceAccountToken": "set spec.automountServiceAccountToken instead",
	"nodeName":                     "set spec.nodeSelector or spec.affinity instead",
	"restartPolicy":                "the pods of a Deployment always restart: remove it",
	"activeDeadlineSeconds":        "the pods of a Deployment have no deadline: remove it",
	"ephemeralContainers":          "pod templates have no ephemeral containers: remove it, and use kubectl debug",
}

var webAppContainer = map[string]string{
	"image":     "set spec.image instead",
	"resources": "set spec.resources instead",
	"command":   "set spec.command instead",
	"args":      "set spec.args instead",
}

// OfPostgreSQL are the rules for spec.podTemplate of a PostgreSQL. The agent relies on most of its pod, so only some fields can be set.
func OfPostgreSQL() Rules {
	return Rules{
		Main: databasev1alpha1.MainContainer, Containers: []string{databasev1alpha1.InstallContainer}, PrivateVolumes: true,
		Pod:       only("Fettle sets it, or its agent relies on it: remove it, or use the field of spec", postgreSQLPod),
		Container: only("only env and volumeMounts of this container can be set", postgreSQLContainer),
		Env: map[string]string{
			"CLUSTER_NAME": "", "POD_NAME": "", "POD_UID": "", "POD_NAMESPACE": "", "MEMORY_LIMIT": "", "PGHOST": "", "PGUSER": "", "PGDATA": "",
		},
		MountPaths: map[string]string{
			"/data": "", "/fettle-bin": "", "/run/fettle": "", "/tmp": "", "/dev/shm": "", "/etc/fettle/tls/server": "",
			"/etc/fettle/tls/replication": "", "/etc/fettle/source": "",
		},
		Volumes: map[string]string{
			"data": "", "bin": "", "run": "", "tmp": "", "memory": "", "server-certificate": "", "replication-certificate": "", "source": "",
		},
	}
}

func only(otherwise string, free []string) func(string) string {
	return func(field string) string {
		if slices.Contains(free, field) {
			return ""
		}
		return otherwise
	}
}

var (
	postgreSQLPod = []string{
		"containers", "initContainers", "volumes", "dnsPolicy", "dnsConfig", "hostAliases", "schedulerName", "runtimeClassName",
		"resourceClaims", "preemptionPolicy", "overhead",
	}
	postgreSQLContainer = []string{"name", "env", "volumeMounts"}
)
