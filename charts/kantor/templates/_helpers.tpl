{{- define "kantor.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kantor.fullname" -}}
{{- $name := include "kantor.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kantor.selector" -}}
app.kubernetes.io/name: {{ include "kantor.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kantor.labels" -}}
{{- $own := include "kantor.selector" . | fromYaml -}}
{{- $own = merge $own (dict "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version)) -}}
{{- merge $own .Values.commonLabels | toYaml -}}
{{- end -}}

{{- define "kantor.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "kantor.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "kantor.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "kantor.leaseName" -}}
{{- .Values.config.leaseName | default (include "kantor.fullname" .) -}}
{{- end -}}

{{/* What the operator reads: the values, and what the chart itself knows. */}}
{{- define "kantor.config" -}}
{{- $own := dict "listen" .Values.listen "leaseName" (include "kantor.leaseName" .) "leaseNamespace" .Release.Namespace -}}
{{- mergeOverwrite (deepCopy .Values.config) $own | toYaml -}}
{{- end -}}
