"""The fields of pods, and of the objects with a pod template, in the API of Kubernetes 1.34.

A status is not checked. The API server refuses a value of another type, and kubectl reports an unknown key.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

#: Each line is a type with its fields. A field without a type is a string. ``[X]`` is a list, ``{X}`` an object with
#: any keys.
_TYPES = """
AWSElasticBlockStoreVolumeSource fsType partition:int32 readOnly:bool volumeID
Affinity nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
AppArmorProfile localhostProfile type
AzureDiskVolumeSource cachingMode diskName diskURI fsType kind readOnly:bool
AzureFileVolumeSource readOnly:bool secretName shareName
CSIVolumeSource driver fsType nodePublishSecretRef:LocalObjectReference readOnly:bool volumeAttributes:{str}
Capabilities add:[str] drop:[str]
CephFSVolumeSource monitors:[str] path readOnly:bool secretFile secretRef:LocalObjectReference user
CinderVolumeSource fsType readOnly:bool secretRef:LocalObjectReference volumeID
ClusterTrustBundleProjection labelSelector:LabelSelector name optional:bool path signerName
ConfigMapEnvSource name optional:bool
ConfigMapKeySelector key name optional:bool
ConfigMapProjection items:[KeyToPath] name optional:bool
ConfigMapVolumeSource defaultMode:int32 items:[KeyToPath] name optional:bool
Container args:[str] command:[str] env:[EnvVar] envFrom:[EnvFromSource] image imagePullPolicy lifecycle:Lifecycle
  livenessProbe:Probe name ports:[ContainerPort] readinessProbe:Probe resizePolicy:[ContainerResizePolicy]
  resources:ResourceRequirements restartPolicy restartPolicyRules:[ContainerRestartRule]
  securityContext:SecurityContext startupProbe:Probe stdin:bool stdinOnce:bool terminationMessagePath
  terminationMessagePolicy tty:bool volumeDevices:[VolumeDevice] volumeMounts:[VolumeMount] workingDir
ContainerPort containerPort:int32 hostIP hostPort:int32 name protocol
ContainerResizePolicy resourceName restartPolicy
ContainerRestartRule action exitCodes:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes operator values:[int32]
CronJob apiVersion kind metadata:ObjectMeta spec:CronJobSpec status:any
CronJobSpec concurrencyPolicy failedJobsHistoryLimit:int32 jobTemplate:JobTemplateSpec schedule
  startingDeadlineSeconds:int64 successfulJobsHistoryLimit:int32 suspend:bool timeZone
DaemonSet apiVersion kind metadata:ObjectMeta spec:DaemonSetSpec status:any
DaemonSetSpec minReadySeconds:int32 revisionHistoryLimit:int32 selector:LabelSelector template:PodTemplateSpec
  updateStrategy:DaemonSetUpdateStrategy
DaemonSetUpdateStrategy rollingUpdate:RollingUpdateDaemonSet type
Deployment apiVersion kind metadata:ObjectMeta spec:DeploymentSpec status:any
DeploymentSpec minReadySeconds:int32 paused:bool progressDeadlineSeconds:int32 replicas:int32
  revisionHistoryLimit:int32 selector:LabelSelector strategy:DeploymentStrategy template:PodTemplateSpec
DeploymentStrategy rollingUpdate:RollingUpdateDeployment type
DownwardAPIProjection items:[DownwardAPIVolumeFile]
DownwardAPIVolumeFile fieldRef:ObjectFieldSelector mode:int32 path resourceFieldRef:ResourceFieldSelector
DownwardAPIVolumeSource defaultMode:int32 items:[DownwardAPIVolumeFile]
EmptyDirVolumeSource medium sizeLimit:quantity
EnvFromSource configMapRef:ConfigMapEnvSource prefix secretRef:SecretEnvSource
EnvVar name value valueFrom:EnvVarSource
EnvVarSource configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector
  resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
EphemeralContainer args:[str] command:[str] env:[EnvVar] envFrom:[EnvFromSource] image imagePullPolicy
  lifecycle:Lifecycle livenessProbe:Probe name ports:[ContainerPort] readinessProbe:Probe
  resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy
  restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext startupProbe:Probe stdin:bool
  stdinOnce:bool targetContainerName terminationMessagePath terminationMessagePolicy tty:bool
  volumeDevices:[VolumeDevice] volumeMounts:[VolumeMount] workingDir
EphemeralVolumeSource volumeClaimTemplate:PersistentVolumeClaimTemplate
ExecAction command:[str]
FCVolumeSource fsType lun:int32 readOnly:bool targetWWNs:[str] wwids:[str]
FileKeySelector key optional:bool path volumeName
FlexVolumeSource driver fsType options:{str} readOnly:bool secretRef:LocalObjectReference
FlockerVolumeSource datasetName datasetUUID
GCEPersistentDiskVolumeSource fsType partition:int32 pdName readOnly:bool
GRPCAction port:int32 service
GitRepoVolumeSource directory repository revision
GlusterfsVolumeSource endpoints path readOnly:bool
HTTPGetAction host httpHeaders:[HTTPHeader] path port:intstr scheme
HTTPHeader name value
HostAlias hostnames:[str] ip
HostPathVolumeSource path type
ISCSIVolumeSource chapAuthDiscovery:bool chapAuthSession:bool fsType initiatorName iqn iscsiInterface lun:int32
  portals:[str] readOnly:bool secretRef:LocalObjectReference targetPortal
ImageVolumeSource pullPolicy reference
Job apiVersion kind metadata:ObjectMeta spec:JobSpec status:any
JobSpec activeDeadlineSeconds:int64 backoffLimit:int32 backoffLimitPerIndex:int32 completionMode completions:int32
  managedBy manualSelector:bool maxFailedIndexes:int32 parallelism:int32 podFailurePolicy:PodFailurePolicy
  podReplacementPolicy selector:LabelSelector successPolicy:SuccessPolicy suspend:bool template:PodTemplateSpec
  ttlSecondsAfterFinished:int32
JobTemplateSpec metadata:ObjectMeta spec:JobSpec
KeyToPath key mode:int32 path
LabelSelector matchExpressions:[LabelSelectorRequirement] matchLabels:{str}
LabelSelectorRequirement key operator values:[str]
Lifecycle postStart:LifecycleHandler preStop:LifecycleHandler stopSignal
LifecycleHandler exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
LocalObjectReference name
NFSVolumeSource path readOnly:bool server
NodeAffinity preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm]
  requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
NodeSelector nodeSelectorTerms:[NodeSelectorTerm]
NodeSelectorRequirement key operator values:[str]
NodeSelectorTerm matchExpressions:[NodeSelectorRequirement] matchFields:[NodeSelectorRequirement]
ObjectFieldSelector apiVersion fieldPath
ObjectMeta annotations:{str} creationTimestamp:time deletionGracePeriodSeconds:int64 deletionTimestamp:time
  finalizers:[str] generateName generation:int64 labels:{str} managedFields:any name namespace
  ownerReferences:[OwnerReference] resourceVersion selfLink uid
OwnerReference apiVersion blockOwnerDeletion:bool controller:bool kind name uid
PersistentVolumeClaim apiVersion kind metadata:ObjectMeta spec:PersistentVolumeClaimSpec status:any
PersistentVolumeClaimSpec accessModes:[str] dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference
  resources:VolumeResourceRequirements selector:LabelSelector storageClassName volumeAttributesClassName volumeMode
  volumeName
PersistentVolumeClaimTemplate metadata:ObjectMeta spec:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource claimName readOnly:bool
PhotonPersistentDiskVolumeSource fsType pdID
Pod apiVersion kind metadata:ObjectMeta spec:PodSpec status:any
PodAffinity preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodAffinityTerm labelSelector:LabelSelector matchLabelKeys:[str] mismatchLabelKeys:[str]
  namespaceSelector:LabelSelector namespaces:[str] topologyKey
PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
PodCertificateProjection certificateChainPath credentialBundlePath keyPath keyType maxExpirationSeconds:int32
  signerName
PodDNSConfig nameservers:[str] options:[PodDNSConfigOption] searches:[str]
PodDNSConfigOption name value
PodFailurePolicy rules:[PodFailurePolicyRule]
PodFailurePolicyOnExitCodesRequirement containerName operator values:[int32]
PodFailurePolicyOnPodConditionsPattern status type
PodFailurePolicyRule action onExitCodes:PodFailurePolicyOnExitCodesRequirement
  onPodConditions:[PodFailurePolicyOnPodConditionsPattern]
PodOS name
PodReadinessGate conditionType
PodResourceClaim name resourceClaimName resourceClaimTemplateName
PodSchedulingGate name
PodSecurityContext appArmorProfile:AppArmorProfile fsGroup:int64 fsGroupChangePolicy runAsGroup:int64
  runAsNonRoot:bool runAsUser:int64 seLinuxChangePolicy seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile
  supplementalGroups:[int64] supplementalGroupsPolicy sysctls:[Sysctl] windowsOptions:WindowsSecurityContextOptions
PodSpec activeDeadlineSeconds:int64 affinity:Affinity automountServiceAccountToken:bool containers:[Container]
  dnsConfig:PodDNSConfig dnsPolicy enableServiceLinks:bool ephemeralContainers:[EphemeralContainer]
  hostAliases:[HostAlias] hostIPC:bool hostNetwork:bool hostPID:bool hostUsers:bool hostname hostnameOverride
  imagePullSecrets:[LocalObjectReference] initContainers:[Container] nodeName nodeSelector:{str} os:PodOS
  overhead:{quantity} preemptionPolicy priority:int32 priorityClassName readinessGates:[PodReadinessGate]
  resourceClaims:[PodResourceClaim] resources:ResourceRequirements restartPolicy runtimeClassName schedulerName
  schedulingGates:[PodSchedulingGate] securityContext:PodSecurityContext serviceAccount serviceAccountName
  setHostnameAsFQDN:bool shareProcessNamespace:bool subdomain terminationGracePeriodSeconds:int64
  tolerations:[Toleration] topologySpreadConstraints:[TopologySpreadConstraint] volumes:[Volume]
PodTemplate apiVersion kind metadata:ObjectMeta status:any template:PodTemplateSpec
PodTemplateSpec metadata:ObjectMeta spec:PodSpec
PortworxVolumeSource fsType readOnly:bool volumeID
PreferredSchedulingTerm preference:NodeSelectorTerm weight:int32
Probe exec:ExecAction failureThreshold:int32 grpc:GRPCAction httpGet:HTTPGetAction initialDelaySeconds:int32
  periodSeconds:int32 successThreshold:int32 tcpSocket:TCPSocketAction terminationGracePeriodSeconds:int64
  timeoutSeconds:int32
ProjectedVolumeSource defaultMode:int32 sources:[VolumeProjection]
QuobyteVolumeSource group readOnly:bool registry tenant user volume
RBDVolumeSource fsType image keyring monitors:[str] pool readOnly:bool secretRef:LocalObjectReference user
ReplicaSet apiVersion kind metadata:ObjectMeta spec:ReplicaSetSpec status:any
ReplicaSetSpec minReadySeconds:int32 replicas:int32 selector:LabelSelector template:PodTemplateSpec
ReplicationController apiVersion kind metadata:ObjectMeta spec:ReplicationControllerSpec status:any
ReplicationControllerSpec minReadySeconds:int32 replicas:int32 selector:{str} template:PodTemplateSpec
ResourceClaim name request
ResourceFieldSelector containerName divisor:quantity resource
ResourceRequirements claims:[ResourceClaim] limits:{quantity} requests:{quantity}
RollingUpdateDaemonSet maxSurge:intstr maxUnavailable:intstr
RollingUpdateDeployment maxSurge:intstr maxUnavailable:intstr
RollingUpdateStatefulSetStrategy maxUnavailable:intstr partition:int32
SELinuxOptions level role type user
ScaleIOVolumeSource fsType gateway protectionDomain readOnly:bool secretRef:LocalObjectReference sslEnabled:bool
  storageMode storagePool system volumeName
SeccompProfile localhostProfile type
SecretEnvSource name optional:bool
SecretKeySelector key name optional:bool
SecretProjection items:[KeyToPath] name optional:bool
SecretVolumeSource defaultMode:int32 items:[KeyToPath] optional:bool secretName
SecurityContext allowPrivilegeEscalation:bool appArmorProfile:AppArmorProfile capabilities:Capabilities
  privileged:bool procMount readOnlyRootFilesystem:bool runAsGroup:int64 runAsNonRoot:bool runAsUser:int64
  seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile windowsOptions:WindowsSecurityContextOptions
ServiceAccountTokenProjection audience expirationSeconds:int64 path
SleepAction seconds:int64
StatefulSet apiVersion kind metadata:ObjectMeta spec:StatefulSetSpec status:any
StatefulSetOrdinals start:int32
StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted whenScaled
StatefulSetSpec minReadySeconds:int32 ordinals:StatefulSetOrdinals
  persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy podManagementPolicy
  replicas:int32 revisionHistoryLimit:int32 selector:LabelSelector serviceName template:PodTemplateSpec
  updateStrategy:StatefulSetUpdateStrategy volumeClaimTemplates:[PersistentVolumeClaim]
StatefulSetUpdateStrategy rollingUpdate:RollingUpdateStatefulSetStrategy type
StorageOSVolumeSource fsType readOnly:bool secretRef:LocalObjectReference volumeName volumeNamespace
SuccessPolicy rules:[SuccessPolicyRule]
SuccessPolicyRule succeededCount:int32 succeededIndexes
Sysctl name value
TCPSocketAction host port:intstr
Toleration effect key operator tolerationSeconds:int64 value
TopologySpreadConstraint labelSelector:LabelSelector matchLabelKeys:[str] maxSkew:int32 minDomains:int32
  nodeAffinityPolicy nodeTaintsPolicy topologyKey whenUnsatisfiable
TypedLocalObjectReference apiGroup kind name
TypedObjectReference apiGroup kind name namespace
Volume awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
  azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource configMap:ConfigMapVolumeSource
  csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource emptyDir:EmptyDirVolumeSource
  ephemeral:EphemeralVolumeSource fc:FCVolumeSource flexVolume:FlexVolumeSource flocker:FlockerVolumeSource
  gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource glusterfs:GlusterfsVolumeSource
  hostPath:HostPathVolumeSource image:ImageVolumeSource iscsi:ISCSIVolumeSource name nfs:NFSVolumeSource
  persistentVolumeClaim:PersistentVolumeClaimVolumeSource photonPersistentDisk:PhotonPersistentDiskVolumeSource
  portworxVolume:PortworxVolumeSource projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource
  scaleIO:ScaleIOVolumeSource secret:SecretVolumeSource storageos:StorageOSVolumeSource
  vsphereVolume:VsphereVirtualDiskVolumeSource
VolumeDevice devicePath name
VolumeMount mountPath mountPropagation name readOnly:bool recursiveReadOnly subPath subPathExpr
VolumeProjection clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection
  downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection secret:SecretProjection
  serviceAccountToken:ServiceAccountTokenProjection
VolumeResourceRequirements limits:{quantity} requests:{quantity}
VsphereVirtualDiskVolumeSource fsType storagePolicyID storagePolicyName volumePath
WeightedPodAffinityTerm podAffinityTerm:PodAffinityTerm weight:int32
WindowsSecurityContextOptions gmsaCredentialSpec gmsaCredentialSpecName hostProcess:bool runAsUserName
"""


@cache
def _table() -> dict[str, dict[str, str]]:
    table = {}
    for line in _TYPES.replace("\n  ", " ").strip().split("\n"):
        name, *entries = line.split()
        table[name] = {field: kind or "str" for field, _, kind in (entry.partition(":") for entry in entries)}
    return table


def fields(name: str) -> Mapping[str, str] | None:
    """Return the types of an object's fields by key. Returns None if the type is not an object with fixed keys."""
    return _table().get(name)
