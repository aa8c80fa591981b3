module tidegate.test/definitions

go 1.26.0

require (
	github.com/kubeflow/trainer/v2 v2.0.0
	github.com/kubeflow/training-operator v1.8.1
	github.com/ray-project/kuberay/ray-operator v1.5.0
	sigs.k8s.io/jobset v0.11.1
)
