{{/* Labels of an object; the argument is a pair of its component and the chart's context. */}}
{{- define "databus.labels" -}}
{{ include "databus.selector" . }}
app.kubernetes.io/version: {{ (index . 1).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 1).Release.Service }}
helm.sh/chart: {{ (index . 1).Chart.Name }}-{{ (index . 1).Chart.Version }}
{{- end }}

{{- define "databus.selector" -}}
app.kubernetes.io/name: databus
app.kubernetes.io/component: {{ index . 0 }}
app.kubernetes.io/instance: {{ (index . 1).Release.Name }}
{{- end }}

{{/* User and group of the Spark and Airflow images: both write the segment store. */}}
{{- define "databus.podSecurity" -}}
runAsNonRoot: true
runAsUser: 50000
runAsGroup: 0
fsGroup: 0
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "databus.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end }}

{{/* What every Spark process is told: its own address, which others reach, and where the log's pieces lie. */}}
{{- define "databus.sparkEnv" -}}
- name: SPARK_HOST
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
- name: SPARK_MASTER_URL
  value: {{ if .Values.spark.cluster.enabled }}spark://databus-spark-master:7077{{ else }}local[{{ .Values.spark.connect.cores }}]{{ end }}
- name: DATABUS_SEGMENT_STORE
  value: {{ .Values.segments.store | quote }}
{{- end }}

{{/* The segment store, and compiled kernels, which would else be compiled again by each new pod. */}}
{{- define "databus.sparkMounts" -}}
{{- if .Values.segments.volume.enabled }}
- name: data
  mountPath: {{ .Values.segments.store }}
  subPath: segments
{{- end }}
- name: data
  mountPath: /var/cache/databus/numba
  subPath: numba
{{- end }}

{{- define "databus.sparkVolumes" -}}
- name: data
  {{- if .Values.segments.volume.enabled }}
  persistentVolumeClaim:
    claimName: databus-segments
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
