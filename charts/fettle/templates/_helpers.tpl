{{/* Labels that Helm adds to those of config/. */}}
{{- define "fettle.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Labels of config/ for all objects. */}}
{{- define "fettle.objectLabels" -}}
app.kubernetes.io/name: fettle
app.kubernetes.io/part-of: fettle
{{ include "fettle.labels" . }}
{{- end }}

{{/* Labels that select the pods. They must not change: the selector of a Deployment is immutable. */}}
{{- define "fettle.selector" -}}
app.kubernetes.io/name: fettle
app.kubernetes.io/component: manager
{{- end }}

{{- define "fettle.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end }}

{{/*
90 % of the memory limit, so that the garbage collector works before the kernel kills. Empty if extraEnv has the variable, or if the limit
has another unit than Mi or Gi.
*/}}
{{- define "fettle.goMemoryLimit" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString }}
{{- $names := list }}
{{- range .Values.extraEnv }}
{{- $names = append $names .name }}
{{- end }}
{{- if and (regexMatch "^[0-9]+[MG]i$" $limit) (not (has "GOMEMLIMIT" $names)) }}
{{- $unit := hasSuffix "Gi" $limit | ternary 1024 1 }}
{{- printf "%dMiB" (div (mul (regexFind "^[0-9]+" $limit) $unit 9) 10) }}
{{- end }}
{{- end }}

{{- define "fettle.args" -}}
- manager
{{- if .Values.leaderElection.enabled }}
- --leader-elect
- --leader-elect-lease-duration={{ .Values.leaderElection.leaseDuration }}
- --leader-elect-renew-deadline={{ .Values.leaderElection.renewDeadline }}
- --leader-elect-retry-period={{ .Values.leaderElection.retryPeriod }}
{{- else if gt (int .Values.replicaCount) 1 }}
{{- fail "replicaCount: more than one replica needs leaderElection.enabled=true" }}
{{- end }}
- --metrics-bind-address={{ .Values.metrics.enabled | ternary ":8443" "0" }}
{{- if .Values.metrics.perObject }}
- --per-object-metrics
{{- end }}
- --health-probe-bind-address=:8081
{{- if .Values.webhook.enabled }}
- --webhook-port={{ .Values.webhook.port }}
- --webhook-certs={{ .Values.webhook.certManager.enabled | ternary "provided" "self-signed" }}
{{- else }}
- --webhooks=false
{{- end }}
{{- with .Values.watchNamespaces }}
- --watch-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.logging.level }}
- --zap-log-level={{ . }}
{{- end }}
{{- with .Values.logging.encoder }}
- --zap-encoder={{ . }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}
