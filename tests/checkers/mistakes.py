"""Slips that a type checker has to find: each line that ends in `# wrong`, and no other."""

import nri
from nri import testing
from nri.testing import FakeRuntime


class Wrong(nri.Plugin):
    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.PodSandbox:  # wrong
        return pod

    async def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:  # wrong
        return nri.Adjustment()

    def start_container(self, pod: nri.PodSandbox) -> None: ...  # wrong

    def run_pod_sandbox(self, pod: nri.Container) -> None: ...  # wrong

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.log.info("%s", pod.nmae)  # wrong
        self.runtime.update("c1")  # wrong
        self.runtime.evict(5)  # wrong


def replies(runtime: FakeRuntime) -> None:
    created = runtime.create_container()
    print(created.evn)  # wrong
    print(created.memory_limt)  # wrong
    print(created.container.nmae)  # wrong
    print(runtime.update_container().cpu_share)  # wrong
    print(runtime.stop_container().update)  # wrong
    runtime.start_contaner()  # wrong
    runtime.add(Wrong)  # wrong
    runtime.create_container(nri.Container())  # wrong
    created.set_memory_limit(5)  # wrong


def names() -> None:
    print(nri.Ajustment)  # wrong
    print(nri.memory_limit(nri.Container()))  # wrong
    print(testing.make_pods)  # wrong
    print(nri.Adjustment().add_envs("A", "1"))  # wrong
    print(nri.Adjustment().set_memory_limit("5"))  # wrong
    nri.Adjustment().env["A"] = "1"  # wrong
    nri.Adjustment().args.append("a")  # wrong
    nri.Adjustment().memory_limit = 5  # wrong
    nri.Adjustment().env = {}  # wrong
    runtime_reply = FakeRuntime().create_container()
    runtime_reply.annotations.update(a="1")  # wrong
    print(nri.Update(nri.PodSandbox()))  # wrong
    print(nri.when("app=web"))  # wrong
    print(nri.every("30s"))  # wrong
