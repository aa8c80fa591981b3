// Command controlplane holds the parts of a Kubernetes control plane that tests need, each as
// `controlplane PART [flags of that part]`: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kwok (which plays the kubelets), plus `key FILE` and `version`.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// parentVariable names the process whose end ends this one.
const parentVariable = "TIDEGATE_CONTROLPLANE_PARENT"

func main() {
	if len(os.Args) < 2 {
		stop(errors.New("usage: controlplane PART [flags]"), 2)
	}
	part := os.Args[1]
	// Each part reads its own flags from where a program of its own would find them.
	os.Args = os.Args[1:]
	go endWithParent()

	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(controllers.NewControllerManagerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "kwok":
		stop(runKwok(kwoksignals.SetupSignalContext()), 1)
	case "key":
		stop(writeKey(os.Args[1:]), 1)
	case "version":
		fmt.Println(version.Get().GitVersion)
	default:
		stop(fmt.Errorf("unknown part %q", part), 2)
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

// runKwok does what kwok's own main package does.
func runKwok(ctx context.Context) error {
	shared := pflag.NewFlagSet("shared", pflag.ContinueOnError)
	shared.ParseErrorsAllowlist.UnknownFlags = true
	shared.Usage = func() {}
	ctx, _ = kwoklog.InitFlags(ctx, shared)
	ctx, err := kwokconfig.InitFlags(ctx, shared)
	if err != nil {
		return err
	}
	command := kwok.NewCommand(ctx)
	// Kubernetes registers a --version flag of its own kind for the whole program.
	command.Version = ""
	command.PersistentFlags().AddFlagSet(shared)
	return command.ExecuteContext(ctx)
}

// writeKey makes the key that signs the tokens of service accounts.
func writeKey(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: controlplane key FILE")
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(arguments[0], pem.EncodeToMemory(block), 0o600)
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
