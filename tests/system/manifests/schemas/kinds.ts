// The kinds of deploy/kubernetes, by apiVersion and kind: one property each.
import type * as apps from "kubernetes-types/apps/v1";
import type * as core from "kubernetes-types/core/v1";
import type * as networking from "kubernetes-types/networking/v1";
import type * as policy from "kubernetes-types/policy/v1";
import type * as scheduling from "kubernetes-types/scheduling/v1";
import type { IPodMonitor }
  from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor";

export interface Kinds {
  "v1/Namespace": core.Namespace;
  "v1/ConfigMap": core.ConfigMap;
  "v1/Secret": core.Secret;
  "v1/Service": core.Service;
  "v1/PersistentVolume": core.PersistentVolume;
  "v1/PersistentVolumeClaim": core.PersistentVolumeClaim;
  "apps/v1/Deployment": apps.Deployment;
  "apps/v1/StatefulSet": apps.StatefulSet;
  "networking.k8s.io/v1/Ingress": networking.Ingress;
  "networking.k8s.io/v1/NetworkPolicy": networking.NetworkPolicy;
  "policy/v1/PodDisruptionBudget": policy.PodDisruptionBudget;
  "scheduling.k8s.io/v1/PriorityClass": scheduling.PriorityClass;
  "monitoring.coreos.com/v1/PodMonitor": IPodMonitor;
}
