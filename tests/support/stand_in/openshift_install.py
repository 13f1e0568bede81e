"""A stand-in for openshift-install. It installs nothing: see the package's documentation.

SEATRIAL_STAND_IN names a JSON file: ``kubeconfig`` to hand out; ``emulator``, folder of the emulated BMCs; ``cloud``,
the file that stands for a cloud; ``fail``, command -> message; ``seconds``, command -> how long it takes;
``together``, how many clusters must be under way before one is done.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

import yaml

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from stand_in import fields

VERSION = "openshift-install 4.99.0 (a stand-in of perfscale.seatrial's tests: nothing is installed)"


class StandIn:
    """One call."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        self.folder = folder
        self.what = " ".join(words)
        self.settings = json.loads(Path(os.environ["SEATRIAL_STAND_IN"]).read_text(encoding="utf-8"))
        folder.mkdir(parents=True, exist_ok=True)

    def log(self, level: str, message: str) -> None:
        """Say a line as logrus writes it."""
        quoted = json.dumps(message, ensure_ascii=False)
        line = f'time="{time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}" level={level} msg={quoted}\n'
        with open(self.folder / ".openshift_install.log", "a", encoding="utf-8") as stream:
            stream.write(line)
        sys.stderr.write(line)

    def fatal(self, message: str, level: str = "fatal") -> NoReturn:
        """End with an error."""
        self.log(level, message)
        sys.exit(1)

    def run(self) -> None:
        """Run the command."""
        self.log("debug", VERSION)
        time.sleep((self.settings.get("seconds") or {}).get(self.what, 0))
        if self.what in (self.settings.get("fail") or {}):
            self.log("debug", "the lines before a failure")
            self.log("error", self.settings["fail"][self.what])
            self.fatal("failed waiting for the rest")
        getattr(self, "do_" + self.what.replace(" ", "_").replace("-", "_"))()

    # input

    def read(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Read an input file, reject undocumented fields, and delete it as the real one does."""
        path = self.folder / name
        if not path.exists():
            self.fatal(f"failed to fetch Install Config: no {name} in {self.folder}")
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        wrong = fields.complaint(document, schema)
        if wrong:
            self.fatal(f'failed to load asset "{name}": invalid: {wrong}', "error")
        self.log("info", f"Consuming {name} from target directory")
        path.unlink()
        return document

    def install_config(self) -> dict[str, Any]:
        """The install-config, from the state when an earlier command has consumed it."""
        state = self.folder / ".openshift_install_state.json"
        if state.exists():
            return json.loads(state.read_text(encoding="utf-8"))
        config = self.read("install-config.yaml", fields.INSTALL_CONFIG)
        state.write_text(json.dumps(config), encoding="utf-8")
        return config

    def hand_out(self) -> None:
        """Write kubeconfig and password."""
        (self.folder / "auth").mkdir(exist_ok=True)
        shutil.copyfile(self.settings["kubeconfig"], self.folder / "auth" / "kubeconfig")
        (self.folder / "auth" / "kubeadmin-password").write_text("KuBe-adMin-CaNary", encoding="utf-8")

    # a cloud

    def do_create_manifests(self) -> None:
        """Write the manifests with number and type of the workers."""
        config = self.install_config()
        (self.folder / "openshift").mkdir(exist_ok=True)
        for zone in "abc":
            value = {"instanceType": config["compute"][0]["platform"].get("aws", {}).get("type", "m6i.xlarge")}
            document = {
                "apiVersion": "machine.openshift.io/v1beta1",
                "kind": "MachineSet",
                "spec": {"template": {"spec": {"providerSpec": {"value": value}}}},
            }
            name = f"99_openshift-cluster-api_worker-machineset-{zone}.yaml"
            (self.folder / "openshift" / name).write_text(yaml.safe_dump(document), encoding="utf-8")

    def do_create_ignition_configs(self) -> None:
        """Write the metadata, by which a cluster is destroyed, before the cloud is asked for anything."""
        config = self.install_config()
        if not (self.folder / "openshift").exists():
            self.do_create_manifests()
        sets = [yaml.safe_load(path.read_text()) for path in sorted((self.folder / "openshift").glob("*machineset*"))]
        values = [one["spec"]["template"]["spec"]["providerSpec"]["value"] for one in sets]
        shutil.rmtree(self.folder / "openshift")
        spot = all("spotMarketOptions" in one for one in values)
        name = config["metadata"]["name"]
        infra = f"{name[:21]}-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:5]}"
        metadata = {
            "clusterName": name,
            "clusterID": "5f1f0d7e-0000-4000-8000-000000000000",
            "infraID": infra,
            "aws": {
                "region": config["platform"]["aws"]["region"],
                "identifier": [{f"kubernetes.io/cluster/{infra}": "owned"}],
                "clusterDomain": f"{name}.{config['baseDomain']}",
            },
        }
        (self.folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
        (self.folder / "bootstrap.ign").write_text(json.dumps({"spot": spot}), encoding="utf-8")

    def cloud(self) -> dict[str, Any]:
        """Clusters in the cloud, by infraID."""
        path = Path(self.settings["cloud"])
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def change_cloud(self, infra: str, what: dict[str, Any] | None) -> None:
        """Put a cluster into the cloud, or take it away."""
        with open(f"{self.settings['cloud']}.seen", "a", encoding="utf-8") as seen:
            fcntl.flock(seen, fcntl.LOCK_EX)
            found = {name: one for name, one in self.cloud().items() if name != infra}
            if what is not None:
                found[infra] = what
                seen.write(json.dumps([what["region"], what["machines"]]) + "\n")
            part = Path(self.settings["cloud"] + ".part")
            part.write_text(json.dumps(found), encoding="utf-8")
            part.replace(self.settings["cloud"])

    def do_create_cluster(self) -> None:
        """Take from the cloud first, then take long, then hand out."""
        config = self.install_config()
        if not (self.folder / "metadata.json").exists():
            self.do_create_ignition_configs()
        if os.environ.get("AWS_SECRET_ACCESS_KEY") != self.settings.get("credential", "made-up"):
            self.fatal("failed to fetch Cluster: the cloud refuses the credentials", "error")
        metadata = json.loads((self.folder / "metadata.json").read_text(encoding="utf-8"))
        aws = config["platform"]["aws"]
        standing = {
            "region": aws["region"],
            "tags": aws.get("userTags", {}),
            "machines": config["controlPlane"]["replicas"] + config["compute"][0]["replicas"],
            "spot": json.loads((self.folder / "bootstrap.ign").read_text())["spot"],
            "fips": config.get("fips", False),
        }
        self.change_cloud(metadata["infraID"], standing)
        self.log("info", "Creating infrastructure resources...")
        time.sleep((self.settings.get("seconds") or {}).get("bootstrap", 0.3))
        end = time.monotonic() + 200
        while len(self.cloud()) < self.settings.get("together", 1):
            if time.monotonic() > end:
                self.fatal("no other cluster was begun meanwhile")
            time.sleep(0.1)
        broken = (self.settings.get("fail") or {}).get("bootstrap")
        if broken:
            self.log("error", "Bootstrap failed to complete: timed out waiting for the condition")
            self.log("error", broken)
            self.fatal("Cluster initialization failed")
        self.hand_out()
        self.log("info", "Install complete!")
        self.log("info", 'Login to the console with user: "kubeadmin", and password: "KuBe-adMin-CaNary"')

    def do_destroy_cluster(self) -> None:
        """Remove the cluster in the metadata, from any machine."""
        path = self.folder / "metadata.json"
        if not path.exists():
            self.fatal(f"Failed while preparing to destroy cluster: open {path}: no such file or directory")
        metadata = json.loads(path.read_text(encoding="utf-8"))
        missing = [name for name in ("clusterName", "infraID") if not metadata.get(name)]
        if missing or not metadata.get("aws", {}).get("identifier"):
            self.fatal(f"Failed while preparing to destroy cluster: metadata lacks {missing or 'aws.identifier'}")
        self.change_cloud(metadata["infraID"], None)
        path.unlink()
        self.log("info", "Uninstallation complete!")

    def do_gather_bootstrap(self) -> None:
        """Leave a bundle."""
        (self.folder / "log-bundle-20261121000000.tar.gz").write_bytes(b"a stand-in's bundle")
        self.log("info", "Bootstrap gather logs captured here")

    # bare metal

    def do_agent_create_image(self) -> None:
        """Create a file instead of the image; it contains the configuration."""
        agent = self.read("agent-config.yaml", fields.AGENT_CONFIG)
        config = self.install_config()
        masters = sum(one["role"] == "master" for one in agent["hosts"])
        if (masters, len(agent["hosts"]) - masters) != (
            config["controlPlane"]["replicas"],
            config["compute"][0]["replicas"],
        ):
            self.fatal("the number of hosts is not that of the replicas", "error")
        addresses = [
            address["ip"]
            for host in agent["hosts"]
            for nic in host["networkConfig"]["interfaces"]
            for address in nic.get("ipv4", {}).get("address", [])
        ]
        if addresses and agent["rendezvousIP"] not in addresses:
            self.fatal(f"rendezvousIP {agent['rendezvousIP']} is the address of no host", "error")
        if len(set(addresses)) != len(addresses):
            self.fatal("two hosts have one address", "error")
        (self.folder / "agent.x86_64.iso").write_bytes(b"a stand-in's image\n" + json.dumps(agent).encode())
        (self.folder / "hosts.json").write_text(json.dumps(agent["hosts"]), encoding="utf-8")
        self.hand_out()

    def do_agent_wait_for_bootstrap_complete(self) -> None:
        """Look at the machines: all of ours must run, from our image."""
        end = time.monotonic() + (self.settings.get("patience") or 10)
        while True:
            wrong = self.not_booted()
            if not wrong:
                break
            if time.monotonic() > end:
                self.log("error", f"Host {wrong}")
                self.fatal("Bootstrap failed to complete: context deadline exceeded after waiting for hosts")
            time.sleep(0.2)
        self.log("info", "Bootstrap is complete")

    def not_booted(self) -> str:
        """The first machine that does not run from our image, and why."""
        emulator = json.loads((Path(self.settings["emulator"]) / "emulator.json").read_text(encoding="utf-8"))
        with urllib.request.urlopen(emulator["steer"], timeout=30) as answer:
            machines = {one["mac"]: one for one in json.load(answer).values()}
        mine = hashlib.sha256((self.folder / "agent.x86_64.iso").read_bytes()).hexdigest()
        seen: dict[str, str] = {}
        for host in json.loads((self.folder / "hosts.json").read_text(encoding="utf-8")):
            machine = machines.get(host["interfaces"][0]["macAddress"])
            if machine is None:
                return f"{host['hostname']}: there is no machine with its MAC address"
            if machine["power"] != "On" or machine["boot"] != "Cd" or not machine["media"].get("Cd"):
                return f"{host['hostname']}: power {machine['power']}, boots from {machine['boot']}"
            url = machine["media"]["Cd"]
            if url not in seen:
                with urllib.request.urlopen(url, timeout=30) as image:
                    seen[url] = hashlib.sha256(image.read()).hexdigest()
            if seen[url] != mine:
                return f"{host['hostname']}: boots from another image"
        return ""

    def do_agent_wait_for_install_complete(self) -> None:
        """Be done."""
        self.log("info", "Cluster is installed")
        self.log("info", 'Login to the console with user: "kubeadmin", and password: "KuBe-adMin-CaNary"')


def main() -> None:
    """Read the command line."""
    if sys.argv[1:] == ["version"]:
        print(VERSION)
        return
    parser = argparse.ArgumentParser(prog="openshift-install")
    parser.add_argument("words", nargs="+")
    parser.add_argument("--dir", type=Path, default=Path())
    parser.add_argument("--log-level", choices=["debug", "info", "warn", "error"], default="info")
    parser.add_argument("--bootstrap")
    parser.add_argument("--master", action="append")
    parser.add_argument("--key")
    given = parser.parse_intermixed_args()
    one = StandIn(given.dir, given.words)
    if not hasattr(one, "do_" + one.what.replace(" ", "_").replace("-", "_")):
        parser.error(f'unknown command "{one.what}" for "openshift-install"')
    one.run()


if __name__ == "__main__":
    main()
