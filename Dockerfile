# The server with the embedded model: docker build -t callmemaybe . && docker run --rm -p 127.0.0.1:8080:8080 -e CALLMEMAYBE_API_KEY=... callmemaybe
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/callmemaybe \
    && /opt/callmemaybe/bin/pip install --no-cache-dir ".[server,gateway-pg,mcp]"

FROM python:3.13-slim
COPY --from=build /opt/callmemaybe /opt/callmemaybe
RUN useradd --uid 10001 --create-home --home-dir /home/callmemaybe callmemaybe
ENV PATH=/opt/callmemaybe/bin:$PATH PYTHONUNBUFFERED=1 CALLMEMAYBE_CACHE=/tmp/callmemaybe
USER 10001
WORKDIR /home/callmemaybe
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
# A server that other machines can reach wants a key: set CALLMEMAYBE_API_KEY.
CMD ["callmemaybe", "serve", "--host", "0.0.0.0", "--port", "8080"]
