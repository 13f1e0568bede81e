#!/usr/bin/env python3
"""Ceiling probe: how many creates a second this API server takes from one raw keep-alive client.

usage: raw_create.py KUBECONFIG COUNT IN_FLIGHT PATH TEMPLATE.json PREFIX
TEMPLATE holds one object; metadata.name becomes PREFIX-<i>. Needs aiohttp and PyYAML.
"""

# Kept as it was written: others compare with it too.
# ruff: noqa: SIM115, E501
import asyncio
import base64
import copy
import json
import resource
import ssl
import sys
import tempfile
import time

import aiohttp
import yaml


def session_args(path):
    config = yaml.safe_load(open(path))
    cluster = config["clusters"][0]["cluster"]
    user = config["users"][0]["user"]

    def file_of(holder, key):
        if key in holder:
            return holder[key]
        out = tempfile.NamedTemporaryFile(delete=False)
        out.write(base64.b64decode(holder[key + "-data"]))
        out.close()
        return out.name

    context = ssl.create_default_context(cafile=file_of(cluster, "certificate-authority"))
    headers = {}
    if "token" in user:
        headers["Authorization"] = "Bearer " + user["token"]
    else:
        context.load_cert_chain(file_of(user, "client-certificate"), file_of(user, "client-key"))
    return cluster["server"], context, headers


async def main():
    kubeconfig, count, in_flight, path, template, prefix = sys.argv[1:7]
    count, in_flight = int(count), int(in_flight)
    server, context, headers = session_args(kubeconfig)
    body = json.load(open(template))
    todo = iter(range(count))
    latencies, refused = [], {}
    connector = aiohttp.TCPConnector(limit=in_flight, ssl=context)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def worker():
            for i in todo:
                one = copy.deepcopy(body)
                one["metadata"]["name"] = f"{prefix}-{i}"
                start = time.perf_counter()
                async with session.post(server + path, json=one) as reply:
                    await reply.read()
                    if reply.status != 201:
                        refused[reply.status] = refused.get(reply.status, 0) + 1
                latencies.append(time.perf_counter() - start)

        start = time.perf_counter()
        await asyncio.gather(*[worker() for _ in range(in_flight)])
        took = time.perf_counter() - start
    latencies.sort()
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{count} creates, {in_flight} in flight: {count / took:.0f}/s, p50 {latencies[count // 2] * 1e3:.1f} ms, "
        f"p99 {latencies[int(count * 0.99)] * 1e3:.1f} ms, client CPU {(used.ru_utime + used.ru_stime) / count * 1e6:.0f} us each, refused {refused}"
    )


asyncio.run(main())
