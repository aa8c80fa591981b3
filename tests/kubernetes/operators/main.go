// Command operators runs the real JobSet controller with its webhooks, for tests:
// `operators WEBHOOK_PORT CERTIFICATE_DIR PROBE_PORT`, with KUBECONFIG in the environment.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
	"sigs.k8s.io/jobset/pkg/webhooks"
)

// parentVariable names the process whose end ends this one.
const parentVariable = "TIDEGATE_CONTROLPLANE_PARENT"

func main() {
	go endWithParent()
	if len(os.Args) != 4 {
		stop(errors.New("usage: operators WEBHOOK_PORT CERTIFICATE_DIR PROBE_PORT"), 2)
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		stop(err, 2)
	}
	ctrl.SetLogger(zap.New())
	stop(run(ctrl.SetupSignalHandler(), port, os.Args[2], "127.0.0.1:"+os.Args[3]), 1)
}

func run(ctx context.Context, port int, certificates string, probe string) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), jobset.AddToScheme(scheme)); err != nil {
		return err
	}
	connection, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	connection.QPS, connection.Burst = 1000, 2000
	manager, err := ctrl.NewManager(connection, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metrics.Options{BindAddress: "0"},
		HealthProbeBindAddress: probe,
		WebhookServer:          webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certificates}),
	})
	if err != nil {
		return err
	}
	if err := setUp(ctx, manager); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("webhooks", manager.GetWebhookServer().StartedChecker()); err != nil {
		return err
	}
	if err := manager.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func setUp(ctx context.Context, manager ctrl.Manager) error {
	if err := controllers.SetupJobSetIndexes(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	if err := controllers.SetupPodIndexes(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	client, scheme := manager.GetClient(), manager.GetScheme()
	jobs := controllers.NewJobSetReconciler(client, scheme, manager.GetEventRecorderFor("jobset"))
	if err := jobs.SetupWithManager(manager); err != nil {
		return err
	}
	pods := controllers.NewPodReconciler(client, scheme, manager.GetEventRecorderFor("pod"))
	if err := pods.SetupWithManager(manager); err != nil {
		return err
	}
	hook, err := webhooks.NewJobSetWebhook(client)
	if err != nil {
		return err
	}
	if err := hook.SetupWebhookWithManager(manager); err != nil {
		return err
	}
	return webhooks.NewPodWebhook(client).SetupWebhookWithManager(manager)
}

// endWithParent ends this process soon after the one that started it, so that a killed test run leaves nothing.
func endWithParent() {
	parent, err := strconv.Atoi(os.Getenv(parentVariable))
	if err != nil {
		return
	}
	for os.Getppid() == parent {
		time.Sleep(300 * time.Millisecond)
	}
	os.Exit(3)
}

func stop(err error, code int) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(code)
	}
}
