# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/torch/modules_ddp.py: DistributedDataParallel and SyncBatchNorm over spira.pytorch, in two
# processes: gloo on the CPU, NCCL on two GPUs, gloo on one GPU.
#
#     python tests/torch/modules_ddp.py
#     SPIRA_TEST_DEVICE=cuda python tests/torch/modules_ddp.py
import os
import socket
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import modules_cases as cases
from modules_cases import DEVICE, Scene, close

import spira.pytorch as spconv

SHAPE = (40, 30, 20)


def scene_of(rank):
    """Ranks have different numbers of voxels."""
    return Scene(SHAPE, rows=300 + 150 * rank, seed=11 + rank)


def labels_of(scene):
    return (scene.indices.sum(1) % 5).long()


def loss_of(net, rank, device, empty=False):
    scene = scene_of(rank)
    if empty:
        scene.features, scene.indices = scene.features[:0], scene.indices[:0]
        return net(scene.tensor(spconv, device=device)[0]).sum()
    x, _ = scene.tensor(spconv, device=device)
    return functional.cross_entropy(net(x), labels_of(scene).to(device))


def network(device):
    torch.manual_seed(5)
    return cases.small_spunet(spconv).to(device)


def device_of(rank):
    if DEVICE == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", rank % torch.cuda.device_count())


def work(rank, port, folder, synchronized, empty):
    """One process: two steps; keeps the gradients of the first and the parameters at the end."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    device = device_of(rank)
    several = DEVICE != "cpu" and torch.cuda.device_count() > 1
    distributed.init_process_group("nccl" if several else "gloo", rank=rank, world_size=2)
    net = network(device)
    if synchronized:
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    if empty:
        net = spconv.convert_batchnorm(net)
    parallel = DistributedDataParallel(net, device_ids=None if DEVICE == "cpu" else [device])
    optimizer = torch.optim.SGD(parallel.parameters(), 0.1)
    kept = {}
    for turn in range(2):
        optimizer.zero_grad()
        loss_of(parallel, rank, device, empty and rank == 1).backward()
        if turn == 0:
            kept = {n: p.grad.cpu().clone() for n, p in net.named_parameters()}
        optimizer.step()
    after = {n: p.detach().cpu() for n, p in net.named_parameters()}
    torch.save((kept, after), os.path.join(folder, f"{rank}.pt"))
    distributed.barrier()
    distributed.destroy_process_group()


def run_two(synchronized=False, empty=False):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(work, (port, folder, synchronized, empty), nprocs=2,
                                        start_method="spawn")
        return [torch.load(os.path.join(folder, f"{r}.pt"), weights_only=True) for r in (0, 1)]


def gloo_gathers():
    """Whether gloo can do on a GPU what SyncBatchNorm needs."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        ones = torch.ones(4, device="cuda")
        distributed.all_gather([torch.empty_like(ones)], ones)
        return True
    except RuntimeError:
        return False
    finally:
        distributed.destroy_process_group()


def test_two_processes_agree_with_one():
    """Also where one of them has no voxels."""
    for empty, ranks in ((False, (0, 1)), (True, (0,))):
        (grads, after), (grads2, after2) = run_two(empty=empty)
        judge = {}
        for rank in ranks: # batch norms of their own, as two processes have them
            net = network(DEVICE)
            loss_of(net, rank, DEVICE).backward()
            for name, p in net.named_parameters():
                judge[name] = judge.get(name, 0) + p.grad.cpu() / 2
        for name, grad in judge.items():
            assert torch.equal(grads[name], grads2[name]), name
            assert torch.equal(after[name], after2[name]), name
            close(grads[name], grad, 1e-5, name)


def test_synchronized_batch_norms():
    """Two processes are as one that has both scenes in its batch."""
    if DEVICE == "cpu":
        raise cases.Skip("PyTorch's SyncBatchNorm needs a GPU")
    if torch.cuda.device_count() < 2 and not gloo_gathers():
        raise cases.Skip("needs two GPUs: gloo does not gather tensors of one")
    (grads, _), (grads2, _) = run_two(synchronized=True)
    net = network(DEVICE)
    scenes = [scene_of(0), scene_of(1)]
    second = scenes[1].indices.clone()
    second[:, 0] += 2
    x = spconv.SparseConvTensor(torch.cat([s.features for s in scenes]).float().to(DEVICE),
                                torch.cat([scenes[0].indices, second]).to(DEVICE), SHAPE, 4)
    y = net(x).split([len(s.indices) for s in scenes])
    sum(functional.cross_entropy(part, labels_of(s).to(DEVICE))
        for part, s in zip(y, scenes)).div(2).backward()
    for name, p in net.named_parameters():
        assert torch.equal(grads[name], grads2[name]), name
        close(grads[name], p.grad, 1e-4, name)


def test_converted_names():
    net = network("cpu")
    names = list(net.state_dict())
    assert list(nn.SyncBatchNorm.convert_sync_batchnorm(net).state_dict()) == names


if __name__ == "__main__":
    cases.run(globals())
